"""The tensors that hold the cache as the native kernels read it: sixteen positions side by side."""

from collections.abc import Iterable

import torch
from torch import Tensor

from engine.cache.layout import LANES, CacheGroup, padded_dim

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "int8": torch.int8}


class LaneStorage:
    """K and V of one cache group, a pair of tensors a layer; blocks of a multiple of 16 positions.

    Keys are [blocks, kv heads, block size / 16, dims / 2, 16, 2] and values
    [blocks, kv heads, block size / 16, 8, dims, 2]: two neighbouring values of 16 keys, and one value of
    two neighbouring positions, lie together. In float32 they are [.., dims, 16] and [.., 16, dims].
    Dims are padded to a multiple of 16. int8 has a float32 scale for each position of a head:
    [blocks, kv heads, block size]. Memory is reserved here and touched as blocks are first written.
    """

    def __init__(self, group: CacheGroup, *, num_blocks: int, block_size: int) -> None:
        assert block_size % LANES == 0, "smaller blocks are for the other storage"
        assert group.in_lanes, "else its padding is not counted"
        self.group = group
        self.num_blocks = num_blocks
        self.block_size = block_size
        self.keys = self._reserve(group.key_dim)
        self.values = self._reserve(group.value_dim)
        self.key_scales = self._reserve_scales()
        self.value_scales = self._reserve_scales()

    def _reserve(self, dim: int) -> tuple[Tensor, ...]:
        shape = (self.num_blocks, self.group.num_kv_heads, self.block_size * padded_dim(dim))
        return tuple(torch.empty(shape, dtype=DTYPES[self.group.dtype]) for _ in range(self.group.num_layers))

    def _reserve_scales(self) -> tuple[Tensor, ...]:
        if self.group.dtype != "int8":
            return ()
        shape = (self.num_blocks, self.group.num_kv_heads, self.block_size)
        return tuple(torch.empty(shape) for _ in range(self.group.num_layers))

    def poison(self, blocks: Iterable[int]) -> None:
        """Fill blocks with NaN, so that a test sees any use of what they held."""
        chosen = torch.tensor(sorted(blocks), dtype=torch.int64)
        integers = self.group.dtype == "int8"
        for cache in (*self.key_scales, *self.value_scales) if integers else (*self.keys, *self.values):
            cache.index_fill_(0, chosen, float("nan"))
