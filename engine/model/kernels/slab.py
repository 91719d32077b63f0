"""Memory in large pages, for what a step reads and writes from end to end: with small ones it waits for addresses."""

import mmap

import torch
from torch import Tensor

PAGE_BYTES = 2 << 20  # a large page of x86
ALIGNMENT = 64  # a line of the cache


class Slab:
    """Hands out zeroed memory, piece after piece; it lives as long as one of its pieces."""

    def __init__(self, *, step_bytes: int = 16 * PAGE_BYTES) -> None:
        self._step_bytes = step_bytes
        self._free = torch.empty(0, dtype=torch.uint8)

    def take(self, rows: int, row_bytes: int) -> Tensor:
        """Zeros [rows, row_bytes] uint8, which begin with a line of the cache."""
        size = rows * row_bytes
        if size == 0:
            return torch.empty((rows, row_bytes), dtype=torch.uint8)
        if size > self._free.numel():
            self._free = map_pages(max(size, self._step_bytes))
        taken = self._free[:size]
        self._free = self._free[-(-size // ALIGNMENT) * ALIGNMENT :]
        return taken.view(rows, row_bytes)


def map_pages(num_bytes: int) -> Tensor:
    """Zeros [at least num_bytes] uint8, untouched, in large pages; the system may refuse and give small ones."""
    size = -(-num_bytes // PAGE_BYTES) * PAGE_BYTES
    pages = mmap.mmap(-1, size + PAGE_BYTES, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    pages.madvise(mmap.MADV_HUGEPAGE)
    memory = torch.frombuffer(pages, dtype=torch.uint8)
    return memory[-memory.data_ptr() % PAGE_BYTES :][:size]
