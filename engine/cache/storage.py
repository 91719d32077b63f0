"""The tensors that hold the cache, block by block."""

from dataclasses import dataclass

import torch
from torch import Tensor

from engine.cache.layout import Layout
from engine.cache.memory import UnitMemory


@dataclass(frozen=True, slots=True)
class Slots:
    """Places of some positions in one block table's units, each [positions] int64."""

    units: Tensor
    offsets: Tensor


class KVStorage(UnitMemory):
    """K and V as torch's operators read them.

    Each layer's are [units, kv heads, block size, head dim], so that a head's rows of one block lie together.
    """

    def __init__(self, layout: Layout, *, num_units: int, block_size: int, device: torch.device) -> None:
        super().__init__(layout, num_units=num_units, block_size=block_size, device=device)
        self.keys = {layer: self._by_position(layer, cell.keys) for layer, cell in self.cells.items()}
        self.values = {
            layer: self._by_position(layer, cell.values)
            for layer, cell in self.cells.items()
            if cell.values is not None
        }

    def _by_position(self, layer: int, cache: Tensor) -> Tensor:
        num_kv_heads = self.layout.group_of(layer).rows.num_kv_heads
        return cache.view(len(cache), num_kv_heads, self.block_size, -1)

    def write(self, layer: int, slots: Slots, key: Tensor, value: Tensor | None) -> None:
        """Put the K and V rows of some positions in their places: [positions, kv heads, head dim], V None if latent."""
        _put(self.keys[layer], slots, key)
        if value is not None:
            _put(self.values[layer], slots, value)

    def read(self, layer: int, blocks: Tensor) -> tuple[Tensor, Tensor]:
        """K and V of many runs of blocks, in float32: [runs, positions of a run, head dim].

        `blocks` [runs, n] are indexes of (unit, kv head), flattened.
        """
        keys = _gather(self.keys[layer], blocks)
        rows = self.layout.group_of(layer).rows
        if rows.latent:
            return keys, keys[..., : rows.value_dim].clone()  # since callers change V
        return keys, _gather(self.values[layer], blocks)


def _put(cache: Tensor, slots: Slots, new: Tensor) -> None:
    cache[slots.units, :, slots.offsets] = new.to(cache.dtype)


def _gather(cache: Tensor, blocks: Tensor) -> Tensor:
    num_kv_heads, head_dim = cache.shape[1], cache.shape[-1]
    if cache.is_contiguous():
        rows = cache.view(len(cache) * num_kv_heads, -1).index_select(0, blocks.flatten())
    else:  # a unit holds other cells too
        rows = cache.flatten(2)[blocks.flatten() // num_kv_heads, blocks.flatten() % num_kv_heads]
    return rows.view(blocks.shape[0], -1, head_dim).float()
