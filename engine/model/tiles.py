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
class Pairs:
    """Some (tile, split) pairs. The first `num_full` are seen whole by every query of their tile."""

    tiles: Tensor  # [pairs] int64
    blocks: Tensor  # [pairs × kv heads, blocks of a split] int64, indexes of (block, kv head)
    num_full: int
    hidden: Tensor  # [other pairs, 1, queries, 1, positions] bool: not for this query to see
    unwritten: Tensor  # [other pairs, 1, positions, 1] bool: behind the sequence's last position


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


def make_tiles(spans: Sequence[Span], geometry: Geometry, window: int | None) -> tuple[Tiles, ...]:
    """Cut the spans of a step; a query sees its own position and `window - 1` before it, or all."""
    heights = sorted({geometry.narrow, geometry.wide})
    cuts = [(height, cut) for height in heights if (cut := _cut(spans, geometry, height)) is not None]
    return tuple(_tiles(spans, cut, geometry, height, window) for height, cut in cuts)


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


def _tiles(spans: Sequence[Span], cut: _Cut, geometry: Geometry, height: int, window: int | None) -> Tiles:
    within = np.minimum(np.arange(height), cut.count[:, None] - 1)
    queries = cut.row[:, None] + within
    places = np.flatnonzero(np.arange(height) < cut.count[:, None])
    return Tiles(
        torch.from_numpy(queries),
        torch.from_numpy(places),
        torch.from_numpy(queries.reshape(-1)[places]),
        _pairs(spans, cut, cut.first[:, None] + within, geometry, window),
    )


def _pairs(
    spans: Sequence[Span], cut: _Cut, positions: Ints, geometry: Geometry, window: int | None
) -> tuple[Pairs, ...]:
    """All pairs, those that are seen whole first; `positions` [tiles, queries] are the queries' own."""
    size = geometry.split
    lowest = np.zeros_like(cut.first) if window is None else np.maximum(cut.first - window + 1, 0) // size
    counts = (cut.first + cut.count - 1) // size - lowest + 1
    tile = np.repeat(np.arange(len(counts)), counts)
    split = np.arange(len(tile)) - np.repeat(np.cumsum(counts) - counts, counts) + np.repeat(lowest, counts)
    # Without a window the pairs not seen whole are a tile's last ones, so that its pairs stay in order.
    partly = (split + 1) * size > cut.first[tile] + 1 if window is None else np.ones(len(tile), np.bool_)
    order = np.argsort(partly, kind="stable")
    tile, split, num_full = tile[order], split[order], int(len(tile) - partly.sum())
    blocks = _split_blocks(spans, cut.span[tile], split, geometry)
    keys = (split[num_full:, None] * size + np.arange(size))[:, None, :]
    stops = np.array([span.stop for span in spans], np.int64)[cut.span[tile[num_full:]]]
    hidden = _hidden(positions[tile[num_full:]][:, :, None], keys, window)
    unwritten = keys[:, 0, :] >= stops[:, None]
    return tuple(
        _slice_pairs(slice(start, start + geometry.max_pairs), tile, blocks, hidden, unwritten)
        for start in range(0, len(tile), geometry.max_pairs)
    )


def _hidden(queries: Ints, keys: Ints, window: int | None) -> Bools:
    later: Bools = keys > queries
    return later if window is None else later | (keys <= queries - window)


def _split_blocks(spans: Sequence[Span], span: Ints, split: Ints, geometry: Geometry) -> Ints:
    """[pairs, kv heads, blocks of a split]; where a table has no block, its first one stands in, unseen."""
    per_split = geometry.split // geometry.block_size
    width = max(len(s.blocks) for s in spans) + per_split
    tables = np.array([s.blocks + s.blocks[:1] * (width - len(s.blocks)) for s in spans], np.int64)
    blocks = tables[span[:, None], split[:, None] * per_split + np.arange(per_split)]
    heads: Ints = blocks[:, None, :] * geometry.num_kv_heads + np.arange(geometry.num_kv_heads)[:, None]
    return heads


def _slice_pairs(part: slice, tile: Ints, blocks: Ints, hidden: Bools, unwritten: Bools) -> Pairs:
    num_full = len(tile) - len(hidden)
    rest = slice(max(part.start - num_full, 0), max(part.stop - num_full, 0))
    return Pairs(
        torch.from_numpy(tile[part]),
        torch.from_numpy(blocks[part].reshape(-1, blocks.shape[-1])),
        len(tile[part]) - len(hidden[rest]),
        torch.from_numpy(hidden[rest][:, None, :, None, :]),
        torch.from_numpy(unwritten[rest][:, None, :, None]),
    )
