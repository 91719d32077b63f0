"""UnitMemory: room for the units of a layout, and where in it each layer's rows lie."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import accumulate, pairwise

import torch
from torch import Tensor

from engine.cache.layout import Layout, RowShape

DTYPES = {
    "float32": torch.float32,
    "bfloat16": torch.bfloat16,
    "float16": torch.float16,
    "int8": torch.int8,
}
POISON = 0xFF  # in every byte: what is read as a float is then no number


@dataclass(frozen=True, slots=True)
class Cell:
    """One layer's place in all units, each tensor [units, values of a unit]; its units may lie apart."""

    keys: Tensor
    values: Tensor | None  # None where rows are latent
    key_scales: Tensor | None  # float32, None but for int8
    value_scales: Tensor | None

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        """Those that there are."""
        return tuple(each for each in (self.keys, self.values, self.key_scales, self.value_scales) if each is not None)


class UnitMemory:
    """The rows of every layer that has any, its own or another's, in `num_units` units of a layout.

    Where all groups have rows of one shape, a cell's K of all units lies together, and so do its V and
    scales. Where shapes differ, a unit's cells lie one behind the other, since those of any group may be in
    it. Memory is reserved here and touched as units are first written; what a unit holds before that, or
    behind a sequence's last position, is undefined and must not be used.
    """

    def __init__(self, layout: Layout, *, num_units: int, block_size: int, device: torch.device) -> None:
        self.layout = layout
        self.num_units = num_units
        self.block_size = block_size
        shapes = {group.rows for group in layout.groups}
        reserve = _reserve_together if len(shapes) == 1 else _reserve_apart
        self._memory, self.cells = reserve(layout, num_units, block_size, device)

    @property
    def num_bytes(self) -> int:
        """Bytes of all units."""
        return sum(memory.nbytes for memory in self._memory)

    def poison(self, units: Iterable[int]) -> None:
        """Make what units hold no number, so that a test sees any use of it."""
        for memory in self._memory:
            chosen = torch.tensor(sorted(units), dtype=torch.int64, device=memory.device)
            memory.index_fill_(0, chosen, POISON)


_Reserved = tuple[tuple[Tensor, ...], Mapping[int, Cell]]  # memory, each [units, bytes] uint8, and the cells by layer


def _reserve_together(layout: Layout, num_units: int, block_size: int, device: torch.device) -> _Reserved:
    rows = layout.groups[0].rows
    sizes = _part_bytes(rows, block_size)
    parts = [
        [torch.empty(num_units, size, dtype=torch.uint8, device=device) for size in sizes]
        for _ in range(layout.unit_bytes(1) // rows.cell_bytes(1))
    ]
    cells = [_cell(rows, each) for each in parts]
    memory = tuple(part for each in parts for part in each)
    return memory, {layer: cells[place.cell] for layer, place in layout.places.items()}


def _reserve_apart(layout: Layout, num_units: int, block_size: int, device: torch.device) -> _Reserved:
    memory = torch.empty(num_units, layout.unit_bytes(block_size), dtype=torch.uint8, device=device)
    cells = {}
    for layer, place in layout.places.items():
        rows = layout.group_of(layer).rows
        ends = accumulate(_part_bytes(rows, block_size), initial=place.cell * rows.cell_bytes(block_size))
        cells[layer] = _cell(rows, [memory[:, begin:end] for begin, end in pairwise(ends)])
    return (memory,), cells


def _part_bytes(rows: RowShape, block_size: int) -> list[int]:
    """Bytes of a cell's K, V and scales, as far as it has them."""
    scales = [rows.scale_bytes] if rows.latent else [rows.scale_bytes] * 2
    return [size * block_size for size in (rows.key_bytes, rows.value_bytes, *scales) if size]


def _cell(rows: RowShape, parts: list[Tensor]) -> Cell:
    """From the parts, [units, bytes] each."""
    left = iter(parts)
    keys = next(left).view(DTYPES[rows.dtype])
    values = None if rows.latent else next(left).view(DTYPES[rows.dtype])
    scaled = rows.dtype == "int8"
    key_scales = next(left).view(torch.float32) if scaled else None
    value_scales = next(left).view(torch.float32) if scaled and not rows.latent else None
    return Cell(keys, values, key_scales, value_scales)
