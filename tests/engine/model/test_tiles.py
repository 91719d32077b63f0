"""Every query meets each position that it may see exactly once, in order, and no other."""

import torch
from hypothesis import given, strategies as st

from engine.model.batch import Span
from engine.model.tiles import Geometry, Tiles, make_tiles

NUM_KV_HEADS = 2


@st.composite
def geometries(draw: st.DrawFn) -> Geometry:
    block_size = draw(st.sampled_from([1, 2, 5]))
    narrow, wide = draw(st.sampled_from([(1, 4), (2, 6), (3, 3)]))
    return Geometry(
        block_size, NUM_KV_HEADS, block_size * draw(st.integers(1, 4)), narrow, wide, draw(st.sampled_from([1, 3, 100]))
    )


@st.composite
def spans_of_a_step(draw: st.DrawFn, block_size: int) -> tuple[Span, ...]:
    """A few sequences whose blocks are all different, and one more block than they need for some."""
    spans, row, block = [], 0, 100
    for _ in range(draw(st.integers(1, 4))):
        start, length = draw(st.integers(0, 30)), draw(st.integers(1, 12))
        num_blocks = -(-(start + length) // block_size) + draw(st.integers(0, 1))
        spans.append(Span(row, start, length, tuple(range(block, block + num_blocks))))
        row, block = row + length, block + num_blocks
    return tuple(spans)


def seen_by_row(tiles: Tiles, geometry: Geometry) -> dict[int, list[tuple[int, int]]]:
    """For each row of the batch the (block, offset) that it sees, in the order of the pairs."""
    height = tiles.queries.shape[1]
    seen: dict[int, list[tuple[int, int]]] = {int(row): [] for row in tiles.rows}
    for pairs in tiles.pairs:
        blocks = pairs.blocks.view(len(pairs.tiles), NUM_KV_HEADS, -1)
        assert torch.equal(blocks[:, 1], blocks[:, 0] + 1)
        for index, tile in enumerate(pairs.tiles.tolist()):
            table = (blocks[index, 0] // NUM_KV_HEADS).tolist()
            places = [(block, offset) for block in table for offset in range(geometry.block_size)]
            for place, row in zip(tiles.places.tolist(), tiles.rows.tolist(), strict=True):
                if place // height == tile:
                    if index < pairs.num_full:
                        seen[row].extend(places)
                        continue
                    hidden = pairs.hidden[index - pairs.num_full, 0, place % height, 0].tolist()
                    seen[row].extend(where for where, hide in zip(places, hidden, strict=True) if not hide)
    return seen


@given(data=st.data(), geometry=geometries(), window=st.none() | st.integers(1, 20))
def test_a_query_sees_its_context_once_and_in_order(
    data: st.DataObject, geometry: Geometry, window: int | None
) -> None:
    spans = data.draw(spans_of_a_step(geometry.block_size))
    expected = {}
    for span in spans:
        for row, position in zip(range(span.row, span.row + span.length), range(span.start, span.stop), strict=True):
            first = 0 if window is None else max(0, position - window + 1)
            expected[row] = [
                (span.blocks[at // geometry.block_size], at % geometry.block_size) for at in range(first, position + 1)
            ]

    seen: dict[int, list[tuple[int, int]]] = {}
    for tiles in make_tiles(spans, geometry, window):
        seen |= seen_by_row(tiles, geometry)

    assert seen == expected


@given(data=st.data(), geometry=geometries(), window=st.none() | st.integers(1, 20))
def test_what_a_pair_reads_behind_a_sequence_s_end_is_marked_unwritten(
    data: st.DataObject, geometry: Geometry, window: int | None
) -> None:
    spans = data.draw(spans_of_a_step(geometry.block_size))
    written = {
        (span.blocks[at // geometry.block_size], at % geometry.block_size) for span in spans for at in range(span.stop)
    }

    for tiles in make_tiles(spans, geometry, window):
        for pairs in tiles.pairs:
            blocks = pairs.blocks.view(len(pairs.tiles), NUM_KV_HEADS, -1)[:, 0] // NUM_KV_HEADS
            for index, table in enumerate(blocks.tolist()):
                places = [(block, offset) for block in table for offset in range(geometry.block_size)]
                partly = index - pairs.num_full
                unwritten = pairs.unwritten[partly, 0, :, 0].tolist() if partly >= 0 else [False] * len(places)
                assert all(where in written for where, not_yet in zip(places, unwritten, strict=True) if not not_yet)


@given(data=st.data(), geometry=geometries())
def test_every_row_is_in_one_tile(data: st.DataObject, geometry: Geometry) -> None:
    spans = data.draw(spans_of_a_step(geometry.block_size))

    rows = [int(row) for tiles in make_tiles(spans, geometry, None) for row in tiles.rows]

    assert sorted(rows) == list(range(sum(span.length for span in spans)))


def test_a_short_chunk_takes_a_narrow_tile_and_a_long_one_wide_tiles() -> None:
    geometry = Geometry(block_size=2, num_kv_heads=1, split=4, narrow=2, wide=8, max_pairs=100)
    spans = (Span(0, 0, 1, (0,)), Span(1, 0, 19, tuple(range(1, 11))))

    narrow, wide = make_tiles(spans, geometry, None)

    assert narrow.queries.tolist() == [[0, 0]]
    assert wide.queries[:, 0].tolist() == [1, 9, 17]
    assert wide.queries[-1].tolist() == [17, 18, 19, 19, 19, 19, 19, 19]


def test_many_pairs_are_computed_in_bounded_slices() -> None:
    geometry = Geometry(block_size=2, num_kv_heads=1, split=2, narrow=1, wide=1, max_pairs=4)

    (tiles,) = make_tiles((Span(0, 12, 1, tuple(range(7))),), geometry, None)

    assert [len(pairs.tiles) for pairs in tiles.pairs] == [4, 3]
    assert [pairs.num_full for pairs in tiles.pairs] == [4, 2]
