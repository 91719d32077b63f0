"""The tensors that hold the cache, block by block."""

from collections.abc import Iterable

import torch
from torch import Tensor

from engine.cache.layout import CacheGroup

_DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}


class KVStorage:
    """K and V of one cache group, a pair of tensors a layer.

    Each is [blocks, kv heads, block size, head dim], so that a head's rows of one block lie together.
    Memory is reserved here and touched as blocks are first written; what a block holds before that, or
    behind a sequence's last position, is undefined and must not be used.
    """

    def __init__(self, group: CacheGroup, *, num_blocks: int, block_size: int, device: torch.device) -> None:
        self.block_size = block_size
        self.num_blocks = num_blocks
        self.num_kv_heads = group.num_kv_heads

        def reserve(head_dim: int) -> tuple[Tensor, ...]:
            shape = (num_blocks, group.num_kv_heads, block_size, head_dim)
            return tuple(torch.empty(shape, dtype=_DTYPES[group.dtype], device=device) for _ in range(group.num_layers))

        self.keys = reserve(group.key_dim)
        self.values = reserve(group.value_dim)

    def write(self, layer: int, rows: Tensor, key: Tensor, value: Tensor) -> None:
        """Put the K and V rows of some positions in their places.

        `rows` [n × kv heads] are indexes of (block, kv head, offset), flattened; `key` and `value` are
        [n, kv heads, head dim].
        """
        for cache, new in ((self.keys[layer], key), (self.values[layer], value)):
            cache.flatten(0, 2).index_copy_(0, rows, new.flatten(0, 1).to(cache.dtype))

    def read(self, layer: int, blocks: Tensor) -> tuple[Tensor, Tensor]:
        """K and V of many runs of blocks, in float32: [runs, positions of a run, head dim].

        `blocks` [runs, n] are indexes of (block, kv head), flattened.
        """
        return _gather(self.keys[layer], blocks), _gather(self.values[layer], blocks)

    def poison(self, blocks: Iterable[int]) -> None:
        """Fill blocks with NaN, so that a test sees any use of what they held."""
        chosen = torch.tensor(sorted(blocks), dtype=torch.int64, device=self.keys[0].device)
        for cache in (*self.keys, *self.values):
            cache.index_fill_(0, chosen, float("nan"))


def _gather(cache: Tensor, blocks: Tensor) -> Tensor:
    head_dim = cache.shape[-1]
    rows = cache.view(cache.shape[0] * cache.shape[1], -1).index_select(0, blocks.flatten())
    return rows.view(blocks.shape[0], -1, head_dim).float()
