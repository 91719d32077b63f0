"""Which queries meet which stretches of the cache in a step: index arithmetic alone.

A sequence's queries are cut into tiles and its context into splits at fixed positions. Attention
computes (tile, split) pairs, each by itself and each of one shape, and joins a tile's pairs in the
order of their positions. So a query's result depends on its own position and context alone.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from engine.model.batch import Span
from engine.step import Table

Ints: TypeAlias = npt.NDArray[np.int64]
Bools: TypeAlias = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Geometry:
    """How tiles and splits are cut; fixed at load."""

    block_size: int
    num_kv_heads: int
    split: int  # positions; a multiple of the block size
    narrow: int  # queries of a tile, for a chunk of few
    wide: int  # queries of a tile, for a chunk of many
    max_pairs: int  # computed at once; bounds the memory that a step with long contexts needs


@dataclass(frozen=True, slots=True)
class Sight:
    """Which positions a layer's queries see: their own, and `window - 1` before it, none before their chunk, or all."""

    window: int | None = None
    chunk: int | None = None

    @property
    def is_whole(self) -> bool:
        """Whether a query sees all positions before its own."""
        return self.window is None and self.chunk is None

    def first_seen(self, positions: Ints) -> Ints:
        """The first position that a query at each of `positions` sees."""
        first = np.zeros_like(positions)
        if self.window is not None:
            first = np.maximum(first, positions + 1 - self.window)
        if self.chunk is not None:
            first = np.maximum(first, positions // self.chunk * self.chunk)
        return first


@dataclass(frozen=True, slots=True)
class Pairs:
    """Some (tile, split) pairs. The first `num_full` are seen whole by every query of their tile."""

    tiles: Tensor  # [pairs] int64
    blocks: Tensor  # [pairs × kv heads, blocks of a split] int64, indexes of (unit, kv head)
    num_full: int
    hidden: Tensor  # [other pairs, 1, queries, 1, positions] bool: not for this query to see
    unheld: Tensor  # [other pairs, 1, positions, 1] bool: behind the last position, or before the block table


@dataclass(frozen=True, slots=True)
class Tiles:
    """All tiles of one height, and their pairs."""

    queries: Tensor  # [tiles, queries] int64, rows of the batch; a tile that is not full repeats its last
    places: Tensor  # [real queries] int64, indexes into the flattened tiles
    rows: Tensor  # [real queries] int64, the batch's rows that they come from
    pairs: tuple[Pairs, ...]


@dataclass(frozen=True, slots=True)
class _Cut:
    """Tiles as arrays: the span, the first row, the first position and the number of queries of each."""

    span: Ints
    row: Ints
    first: Ints
    count: Ints


def make_tiles(spans: Sequence[Span], number: int, geometry: Geometry, sight: Sight) -> tuple[Tiles, ...]:
    """Cut the spans of a step, for layers that see so far and read by block table `number`."""
    heights = sorted({geometry.narrow, geometry.wide})
    cuts = [(height, cut) for height in heights if (cut := _cut(spans, geometry, height)) is not None]
    context = _Context(spans, tuple(span.tables[number] for span in spans), geometry, sight)
    return tuple(_tiles(cut, height, context) for height, cut in cuts)


def _cut(spans: Sequence[Span], geometry: Geometry, height: int) -> _Cut | None:
    """The tiles of one height: wide ones, and a narrow one for a rest that it can hold."""
    tiles = []
    for index, span in enumerate(spans):
        done = 0
        while done < span.length:
            left = span.length - done
            size = geometry.narrow if left <= geometry.narrow else geometry.wide
            if size == height:
                tiles.append((index, span.row + done, span.start + done, min(size, left)))
            done += size
    return _Cut(*np.array(tiles, np.int64).T) if tiles else None


@dataclass(frozen=True, slots=True)
class _Context:
    """What the queries of a step may read, and how it is cut."""

    spans: Sequence[Span]
    tables: Sequence[Table]  # one for each span
    geometry: Geometry
    sight: Sight


def _tiles(cut: _Cut, height: int, context: _Context) -> Tiles:
    within = np.minimum(np.arange(height), cut.count[:, None] - 1)
    queries = cut.row[:, None] + within
    places = np.flatnonzero(np.arange(height) < cut.count[:, None])
    return Tiles(
        torch.from_numpy(queries),
        torch.from_numpy(places),
        torch.from_numpy(queries.reshape(-1)[places]),
        _pairs(cut, cut.first[:, None] + within, context),
    )


def _pairs(cut: _Cut, positions: Ints, context: _Context) -> tuple[Pairs, ...]:
    """All pairs, those that are seen whole first; `positions` [tiles, queries] are the queries' own."""
    size, sight = context.geometry.split, context.sight
    lowest = sight.first_seen(cut.first) // size
    counts = (cut.first + cut.count - 1) // size - lowest + 1
    tile = np.repeat(np.arange(len(counts)), counts)
    split = np.arange(len(tile)) - np.repeat(np.cumsum(counts) - counts, counts) + np.repeat(lowest, counts)
    # Where all is seen the pairs not seen whole are a tile's last ones, so that its pairs stay in order.
    partly = (split + 1) * size > cut.first[tile] + 1 if sight.is_whole else np.ones(len(tile), np.bool_)
    order = np.argsort(partly, kind="stable")
    tile, split, num_full = tile[order], split[order], int(len(tile) - partly.sum())
    blocks = _split_blocks(cut.span[tile], split, context)
    keys = split[num_full:, None] * size + np.arange(size)
    hidden = _hidden(positions[tile[num_full:]][:, :, None], keys[:, None, :], sight)
    unheld = _unheld(cut.span[tile[num_full:]], keys, context)
    most = context.geometry.max_pairs
    return tuple(
        _slice_pairs(slice(start, start + most), tile, blocks, hidden, unheld) for start in range(0, len(tile), most)
    )


def _hidden(queries: Ints, keys: Ints, sight: Sight) -> Bools:
    later: Bools = keys > queries
    return later if sight.is_whole else later | (keys < sight.first_seen(queries))


def _unheld(span: Ints, keys: Ints, context: _Context) -> Bools:
    """Which of the keys [pairs, positions] of these spans [pairs] are behind the last position, or before the table."""
    size = context.geometry.block_size
    stops = np.array([each.stop for each in context.spans], np.int64)[span]
    firsts = np.array([table.first * size for table in context.tables], np.int64)[span]
    unheld: Bools = (keys >= stops[:, None]) | (keys < firsts[:, None])
    return unheld


def _split_blocks(span: Ints, split: Ints, context: _Context) -> Ints:
    """[pairs, kv heads, blocks of a split]; where a table has no block, another of it stands in, unseen."""
    geometry, tables = context.geometry, context.tables
    per_split = geometry.split // geometry.block_size
    width = max(len(table.units) for table in tables)
    units = np.array([table.units + table.units[:1] * (width - len(table.units)) for table in tables], np.int64)
    firsts = np.array([table.first for table in tables], np.int64)
    places = split[:, None] * per_split + np.arange(per_split) - firsts[span][:, None]
    blocks = units[span[:, None], np.clip(places, 0, width - 1)]
    heads: Ints = blocks[:, None, :] * geometry.num_kv_heads + np.arange(geometry.num_kv_heads)[:, None]
    return heads


def _slice_pairs(part: slice, tile: Ints, blocks: Ints, hidden: Bools, unheld: Bools) -> Pairs:
    num_full = len(tile) - len(hidden)
    rest = slice(max(part.start - num_full, 0), max(part.stop - num_full, 0))
    return Pairs(
        torch.from_numpy(tile[part]),
        torch.from_numpy(blocks[part].reshape(-1, blocks.shape[-1])),
        len(tile[part]) - len(hidden[rest]),
        torch.from_numpy(hidden[rest][:, None, :, None, :]),
        torch.from_numpy(unheld[rest][:, None, :, None]),
    )
