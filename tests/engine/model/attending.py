"""Sequences behind the attention of several kinds of layers, over block tables that give back what no query sees."""

import functools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import torch
from torch import Tensor

from engine.cache.layout import CacheGroup, Layout, Reach, RowShape
from engine.cache.memory import UnitMemory
from engine.model.attention import Attending
from engine.model.batch import Span
from engine.step import Table

NUM_HEADS = 6
MOST = 400  # positions of a sequence
PADDING = 3  # rows behind a batch's own


class CachedAttention(Attending, Protocol):
    """Attention on any path, and the cache that it reads."""

    @property
    def storage(self) -> UnitMemory: ...

    def begin(self, spans: Sequence[Span]) -> None: ...


def layout_of(groups: Sequence[CacheGroup], *, sharing: bool = False) -> Layout:
    """The groups, and where they are `sharing` a layer more that reads the first layer's rows."""
    number = max(layer for group in groups for layer in group.layers) + 1
    first = groups[0]
    return Layout(tuple(groups), owners=((number, first.layers[0]),) if sharing and not first.rows.latent else ())


@dataclass(frozen=True, slots=True)
class Part:
    """Positions of a sequence, by its number, that a step computes."""

    sequence: int
    start: int
    stop: int


@dataclass(slots=True)
class _Held:
    """A sequence's units in one table: the block that the first is of, and the units."""

    first: int = 0
    units: list[int] = field(default_factory=list)


class World:
    """Runs parts of sequences through every layer; what is freed is poisoned, and handed out again."""

    def __init__(self, attention: CachedAttention, lengths: Sequence[int]) -> None:
        self.attention = attention
        self.layout = attention.storage.layout
        self.lengths = lengths
        self._free = list(range(attention.storage.num_units))
        self._held = [[_Held() for _ in range(self.layout.num_tables)] for _ in lengths]
        attention.storage.poison(self._free)

    def whole(self) -> list[dict[int, Tensor]]:
        """What each layer gives for every sequence in one step: [positions, heads, value dim] by layer."""
        return self.step([Part(number, 0, length) for number, length in enumerate(self.lengths)])

    def chunked(self, sizes: Sequence[int]) -> list[dict[int, Tensor]]:
        """The same in chunks of these sizes, again and again, all sequences beside each other, out of step."""
        pieces: list[dict[int, list[Tensor]]] = [{layer: [] for layer in self.layout.places} for _ in self.lengths]
        done = [0] * len(self.lengths)
        turn = 0
        while parts := list(self._next_parts(done, sizes, turn)):
            for part, outs in zip(parts, self.step(parts), strict=True):
                done[part.sequence] = part.stop
                for layer, out in outs.items():
                    pieces[part.sequence][layer].append(out)
            turn += 1
        return [{layer: torch.cat(each) for layer, each in layers.items()} for layers in pieces]

    def _next_parts(self, done: Sequence[int], sizes: Sequence[int], turn: int) -> Iterator[Part]:
        for number, (start, length) in enumerate(zip(done, self.lengths, strict=True)):
            if start < length:
                yield Part(number, start, min(start + sizes[(turn + number) % len(sizes)], length))

    def step(self, parts: Sequence[Part]) -> list[dict[int, Tensor]]:
        """What each layer gives for the parts."""
        spans, row = [], 0
        for part in parts:
            spans.append(Span(row, part.start, part.stop - part.start, self._tables(part)))
            row += part.stop - part.start
        self.attention.begin(spans)
        outs = {layer: self._attend(layer, parts) for layer in self.layout.places}
        return [{layer: outs[layer][span.row : span.row + span.length] for layer in outs} for span in spans]

    def _attend(self, layer: int, parts: Sequence[Part]) -> Tensor:
        group = self.layout.group_of(layer)
        drawn = [rows_of(self.layout, layer, part.sequence, part.stop) for part in parts]
        query, key, value = (
            torch.cat([each[:, part.start :] for each, part in zip(many, parts, strict=True)], dim=1)
            for many in zip(*drawn, strict=True)
        )
        query, key, value = (
            torch.cat([each, each.new_full((len(each), PADDING, each.shape[2]), torch.nan)], dim=1)
            for each in (query, key, value)
        )
        if self.layout.owner_of(layer) != layer:  # its own are not for the cache
            key, value = torch.full_like(key, torch.nan), torch.full_like(value, torch.nan)
        if group.rows.latent:
            return self.attention.attend_latent(layer, query, key[0])
        window = group.size if group.reach is Reach.WINDOW else None
        return self.attention.attend(layer, query, key, value, window=window, softcap=None, sinks=None)

    def _tables(self, part: Part) -> tuple[Table, ...]:
        size = self.attention.storage.block_size
        for group, held in zip(self.layout.table_groups, self._held[part.sequence], strict=True):
            gone = group.first_seen(part.start) // size - held.first
            self._give_back(held.units[:gone])
            del held.units[:gone]
            held.first += gone
            while len(held.units) + held.first < -(-part.stop // size):
                held.units.append(self._free.pop(0))
        return tuple(Table(tuple(held.units), held.first) for held in self._held[part.sequence])

    def _give_back(self, units: Sequence[int]) -> None:
        self.attention.storage.poison(units)
        self._free.extend(units)


def rows_of(layout: Layout, layer: int, sequence: int, count: int) -> tuple[Tensor, Tensor, Tensor]:
    """Queries, K and V [heads, positions, dim] of a sequence in one layer; K and V are those of its owner."""
    rows = layout.group_of(layer).rows
    query = _random(NUM_HEADS, count, rows.key_dim, seed=1000 * layer + sequence) * rows.key_dim**-0.5
    owner = 1000 * layout.owner_of(layer) + sequence
    key = _random(rows.num_kv_heads, count, rows.key_dim, seed=owner + 333)
    value = (
        key[..., : rows.value_dim]
        if rows.latent
        else _random(rows.num_kv_heads, count, rows.value_dim, seed=owner + 666)
    )
    return query, key, value


def _random(heads: int, count: int, dim: int, *, seed: int) -> Tensor:
    """Rows that do not depend on how many there are."""
    return _many(heads, dim, seed)[:, :count]


@functools.cache
def _many(heads: int, dim: int, seed: int) -> Tensor:
    return torch.randn(MOST, heads, dim, generator=torch.Generator().manual_seed(seed)).transpose(0, 1)


def dense(layout: Layout, layer: int, sequence: int, count: int) -> Tensor:
    """Attention in float64, [positions, heads, value dim]."""
    group = layout.group_of(layer)
    query, key, value = (each.double() for each in rows_of(layout, layer, sequence, count))
    key, value = (each.repeat_interleave(NUM_HEADS // len(each), dim=0) for each in (key, value))
    positions = torch.arange(count)
    firsts = torch.tensor([group.first_seen(position) for position in range(count)])
    hidden = (positions > positions[:, None]) | (positions < firsts[:, None])
    weights = (query @ key.transpose(1, 2)).masked_fill(hidden, -torch.inf).softmax(-1)
    return (weights @ value).transpose(0, 1)


def groups_of(dtype: str, *, in_lanes: bool, block_size: int) -> dict[str, tuple[CacheGroup, ...]]:
    """Layouts by name: one shape or several, with every reach."""

    def rows(num_kv_heads: int, key_dim: int, value_dim: int, *, latent: bool = False) -> RowShape:
        return RowShape(num_kv_heads, key_dim, value_dim, dtype, in_lanes, latent)

    usual, other = rows(2, 32, 32), rows(3, 16, 48)
    chunk = 3 * block_size + 5  # borders within blocks
    return {
        "window": (CacheGroup((0, 2), usual), CacheGroup((1, 3), usual, Reach.WINDOW, 37)),
        "chunk": (CacheGroup((0, 1, 2), usual, Reach.CHUNK, chunk), CacheGroup((3,), usual)),
        "latent": (CacheGroup((0, 1), rows(1, 48, 32, latent=True)),),
        "mixed": (
            CacheGroup((0, 2), usual),
            CacheGroup((1, 3, 4), other, Reach.WINDOW, 50),
            CacheGroup((5,), other, Reach.CHUNK, chunk),
            CacheGroup((6,), rows(1, 48, 32, latent=True)),
        ),
    }
