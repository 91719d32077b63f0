"""From a model's config to the groups of its cache, and how they share one pool of memory.

Layers whose rows have one shape and are kept by one rule are a group. What the pool hands out is a *unit*:
a fixed number of bytes, which holds the rows of one block of positions in as many layers of a group as fit.
A group's block is as many units as its layers need, each with a block table of its own to the kernels.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from math import prod

DTYPE_BYTES = {"float32": 4, "bfloat16": 2, "float16": 2, "int8": 1}
SCALE_BYTES = 4  # of each head's K and V at each position, where they are int8
STATE_BYTES = 4  # of a value of a recurrent state: float32, since it is added to at every position
LANES = 16  # positions that the native kernels read side by side
MAX_WASTE = 0.10  # of any group's units, where its layers don't fill the last


class Reach(Enum):
    """Which positions a layer's queries see, and so for how long rows are kept."""

    FULL = "full attention"
    WINDOW = "sliding window"
    CHUNK = "chunked attention"


@dataclass(frozen=True, slots=True)
class RowShape:
    """What one layer keeps of one position: K and V of each kv head, or one latent row that is both."""

    num_kv_heads: int
    key_dim: int
    value_dim: int
    dtype: str
    in_lanes: bool = False  # as the native kernels read it, heads padded
    latent: bool = False  # V is the beginning of K, and takes no room of its own

    @property
    def key_bytes(self) -> int:
        """Bytes of K at one position, scales apart."""
        return self._bytes(self.key_dim)

    @property
    def value_bytes(self) -> int:
        """Bytes of V at one position, scales apart."""
        return 0 if self.latent else self._bytes(self.value_dim)

    @property
    def scale_bytes(self) -> int:
        """Bytes of the scales at one position, K's or V's alike."""
        return self.num_kv_heads * SCALE_BYTES if self.dtype == "int8" else 0

    def cell_bytes(self, block_size: int) -> int:
        """Bytes of one block in one layer."""
        num_scales = 1 if self.latent else 2
        return (self.key_bytes + self.value_bytes + num_scales * self.scale_bytes) * block_size

    def _bytes(self, dim: int) -> int:
        return self.num_kv_heads * (padded_dim(dim) if self.in_lanes else dim) * DTYPE_BYTES[self.dtype]

    def __str__(self) -> str:
        if self.latent:
            return f"latent rows of {self.key_dim}"
        dims = str(self.key_dim) if self.key_dim == self.value_dim else f"{self.key_dim}/{self.value_dim}"
        return f"{self.num_kv_heads} kv heads x {dims}"


def padded_dim(dim: int) -> int:
    """A head's values as the native kernels store them: a multiple of 16."""
    return -(-dim // LANES) * LANES


@dataclass(frozen=True, slots=True)
class CacheGroup:
    """Layers that keep rows of one shape by one rule. `size` is the window's or the chunk's, in positions."""

    layers: tuple[int, ...]
    rows: RowShape
    reach: Reach = Reach.FULL
    size: int = 0

    @property
    def chunk(self) -> int | None:
        """Positions of a chunk where attention is chunked."""
        return self.size if self.reach is Reach.CHUNK else None

    def window(self, asked: int | None) -> int | None:
        """The window that a layer attends through: what it asks for, but never beyond what the group keeps."""
        if self.reach is not Reach.WINDOW:
            return asked
        return min(self.size, asked or self.size)

    def first_seen(self, position: int) -> int:
        """The first position that a query at `position` sees."""
        match self.reach:
            case Reach.FULL:
                return 0
            case Reach.WINDOW:
                return max(0, position + 1 - self.size)
            case Reach.CHUNK:
                return position // self.size * self.size

    def __str__(self) -> str:
        if not self.layers:
            return "places of a draft model"
        reach = self.reach.value if self.reach is Reach.FULL else f"{self.reach.value} of {self.size}"
        return f"{reach}, {len(self.layers)} layers, {self.rows}"


@dataclass(frozen=True, slots=True)
class StateArray:
    """One tensor of a layer's recurrent state, float32."""

    name: str
    shape: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class StateGroup:
    """Layers that keep one state a sequence instead of rows."""

    kind: str  # for people, such as "Mamba-2"
    layers: tuple[int, ...]
    arrays: tuple[StateArray, ...]

    @property
    def slot_bytes(self) -> int:
        """Bytes of one sequence's state in all of the layers."""
        return len(self.layers) * sum(prod(array.shape) for array in self.arrays) * STATE_BYTES

    def __str__(self) -> str:
        return f"{self.kind} states, {len(self.layers)} layers, {self.slot_bytes:,} bytes each"


@dataclass(frozen=True, slots=True)
class Place:
    """Where a layer's rows lie: in which block table's units, and at which of a unit's cells."""

    table: int
    cell: int


@dataclass(frozen=True)
class Layout:
    """All cache groups of a model. `owners` names, for each layer that reads another's rows, that other layer.

    `beside` are a draft model's layers. Their rows have a place of their own beside each unit; those of a position
    lie beside the block of it in the first group that keeps every position.
    """

    groups: tuple[CacheGroup, ...]
    states: tuple[StateGroup, ...] = ()
    owners: tuple[tuple[int, int], ...] = ()
    beside: CacheGroup | None = None

    @property
    def dtype(self) -> str:
        """The type of the cached rows."""
        return self.groups[0].rows.dtype if self.groups else "float32"

    @cached_property
    def unit_bytes_a_position(self) -> int:
        """Bytes of a unit, for each position of a block: as large as the waste allows, so that tables are few."""
        sizes = [group.rows.cell_bytes(1) for group in self.groups if group.layers]
        counts = [len(group.layers) for group in self.groups if group.layers]
        candidates = {count * size for size, most in zip(sizes, counts, strict=True) for count in range(1, most + 1)}
        fitting = [bytes_ for bytes_ in candidates if bytes_ >= max(sizes)]
        wastes = {each: max(_waste(each, *group) for group in zip(sizes, counts, strict=True)) for each in fitting}
        good = [each for each in fitting if wastes[each] < MAX_WASTE]
        if good:
            return min(good, key=lambda each: (self._num_units(each, sizes, counts), wastes[each]))
        return min(fitting, key=lambda each: wastes[each], default=0)

    @staticmethod
    def _num_units(unit: int, sizes: Sequence[int], counts: Sequence[int]) -> int:
        return sum(_width(unit, size, count) for size, count in zip(sizes, counts, strict=True))

    @cached_property
    def widths(self) -> tuple[int, ...]:
        """Units of one block, by group."""
        unit = self.unit_bytes_a_position
        return tuple(_width(unit, group.rows.cell_bytes(1), len(group.layers)) for group in self.groups)

    @property
    def num_tables(self) -> int:
        """Block tables of a sequence."""
        return sum(self.widths)

    @cached_property
    def table_groups(self) -> tuple[CacheGroup, ...]:
        """The group that each block table is of."""
        pairs = zip(self.groups, self.widths, strict=True)
        return tuple(group for group, width in pairs for _ in range(width))

    def unit_bytes(self, block_size: int) -> int:
        """Bytes of what the pool hands out, a draft model's rows beside it included."""
        return (self.unit_bytes_a_position + _row_bytes(self.beside)) * block_size

    def block_bytes(self, block_size: int) -> int:
        """Bytes of one block in every group."""
        return self.unit_bytes(block_size) * sum(self.widths)

    @property
    def waste(self) -> float:
        """The share of a block's bytes in every group that no row ever takes."""
        used = sum(map(_row_bytes, (*self.groups, self.beside)))
        return 1 - used / self.block_bytes(1) if self.groups else 0.0

    @property
    def slot_bytes(self) -> int:
        """Bytes of one sequence's recurrent state."""
        return sum(group.slot_bytes for group in self.states)

    @cached_property
    def places(self) -> dict[int, Place]:
        """Where each layer that has rows, its own or another's, finds them."""
        places: dict[int, Place] = {}
        table = 0
        for group, width in zip(self.groups, self.widths, strict=True):
            per_unit = self.unit_bytes_a_position // group.rows.cell_bytes(1)
            for index, layer in enumerate(group.layers):
                places[layer] = Place(table + index // per_unit, index % per_unit)
            table += width
        return places | {layer: places[owner] for layer, owner in self.owners}

    @property
    def group_beside(self) -> int:
        """The group beside whose blocks a draft model's rows lie: the first that keeps every position."""
        return next(number for number, group in enumerate(self.groups) if group.reach is Reach.FULL)

    @property
    def table_beside(self) -> int:
        """The block table that leads to them."""
        return sum(self.widths[: self.group_beside])

    def owner_of(self, layer: int) -> int:
        """The layer whose rows a layer reads: itself, or another."""
        return dict(self.owners).get(layer, layer)

    def group_of(self, layer: int) -> CacheGroup:
        """The group whose rows a layer reads."""
        return self._group_by_layer[self.owner_of(layer)]

    @cached_property
    def _group_by_layer(self) -> dict[int, CacheGroup]:
        return {layer: group for group in self.groups for layer in group.layers}

    def __str__(self) -> str:
        parts = [str(group) for group in (*self.groups, *self.states)]
        if self.owners:
            parts.append(f"{len(self.owners)} layers read another's rows")
        return "; ".join(parts)


def _row_bytes(group: CacheGroup | None) -> int:
    """Bytes of one position in all layers of a group."""
    return group.rows.cell_bytes(1) * len(group.layers) if group else 0


def _width(unit: int, cell: int, count: int) -> int:
    return -(-count // (unit // cell)) if count else 1  # a group without layers keeps places for what lies beside


def _waste(unit: int, cell: int, count: int) -> float:
    return 1 - count * cell / (_width(unit, cell, count) * unit)
