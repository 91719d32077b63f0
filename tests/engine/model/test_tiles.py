"""Every query meets each position that it may see exactly once, in order, and no other."""

import torch
from hypothesis import given, strategies as st

from engine.model.batch import Span
from engine.model.tiles import Geometry, Sight, Tiles, make_tiles
from engine.step import Table

NUM_KV_HEADS = 2


@st.composite
def geometries(draw: st.DrawFn) -> Geometry:
    block_size = draw(st.sampled_from([1, 2, 5]))
    narrow, wide = draw(st.sampled_from([(1, 4), (2, 6), (3, 3)]))
    return Geometry(
        block_size, NUM_KV_HEADS, block_size * draw(st.integers(1, 4)), narrow, wide, draw(st.sampled_from([1, 3, 100]))
    )


def sights() -> st.SearchStrategy[Sight]:
    sizes = st.integers(1, 20)
    return st.just(Sight()) | st.builds(Sight, window=sizes) | st.builds(Sight, chunk=sizes)


def first_seen(position: int, sight: Sight) -> int:
    if sight.chunk is not None:
        return position - position % sight.chunk
    return 0 if sight.window is None else max(0, position - sight.window + 1)


@st.composite
def spans_of_a_step(draw: st.DrawFn, block_size: int, sight: Sight) -> tuple[Span, ...]:
    """A few sequences whose blocks are all different, one more than they need for some, without some not seen."""
    spans, row, block = [], 0, 100
    for _ in range(draw(st.integers(1, 4))):
        start, length = draw(st.integers(0, 30)), draw(st.integers(1, 12))
        num_blocks = -(-(start + length) // block_size) + draw(st.integers(0, 1))
        first = first_seen(start, sight) // block_size
        spans.append(Span(row, start, length, (Table(tuple(range(block + first, block + num_blocks)), first),)))
        row, block = row + length, block + num_blocks
    return tuple(spans)


def places(span: Span, positions: range, block_size: int) -> list[tuple[int, int]]:
    """The (block, offset) of some positions of a sequence."""
    table = span.tables[0]
    return [(table.units[at // block_size - table.first], at % block_size) for at in positions]


def test_a_block_table_is_chosen_by_its_number() -> None:
    geometry = Geometry(block_size=2, num_kv_heads=1, split=2, narrow=1, wide=1, max_pairs=4)
    tables = (Table((5,)), Table((8,)))

    found = [make_tiles((Span(0, 1, 1, tables),), number, geometry, Sight())[0].pairs[0].blocks for number in (0, 1)]

    assert [blocks.tolist() for blocks in found] == [[[5]], [[8]]]


def seen_by_row(tiles: Tiles, geometry: Geometry) -> dict[int, list[tuple[int, int]]]:
    """For each row of the batch the (block, offset) that it sees, in the order of the pairs."""
    height = tiles.queries.shape[1]
    seen: dict[int, list[tuple[int, int]]] = {int(row): [] for row in tiles.rows}
    for pairs in tiles.pairs:
        blocks = pairs.blocks.view(len(pairs.tiles), NUM_KV_HEADS, -1)
        assert torch.equal(blocks[:, 1], blocks[:, 0] + 1)
        for index, tile in enumerate(pairs.tiles.tolist()):
            table = (blocks[index, 0] // NUM_KV_HEADS).tolist()
            read = [(block, offset) for block in table for offset in range(geometry.block_size)]
            for place, row in zip(tiles.places.tolist(), tiles.rows.tolist(), strict=True):
                if place // height == tile:
                    if index < pairs.num_full:
                        seen[row].extend(read)
                        continue
                    hidden = pairs.hidden[index - pairs.num_full, 0, place % height, 0].tolist()
                    seen[row].extend(where for where, hide in zip(read, hidden, strict=True) if not hide)
    return seen


@given(data=st.data(), geometry=geometries(), sight=sights())
def test_a_query_sees_its_context_once_and_in_order(data: st.DataObject, geometry: Geometry, sight: Sight) -> None:
    spans = data.draw(spans_of_a_step(geometry.block_size, sight))
    expected = {}
    for span in spans:
        for row, position in zip(range(span.row, span.row + span.length), range(span.start, span.stop), strict=True):
            expected[row] = places(span, range(first_seen(position, sight), position + 1), geometry.block_size)

    seen: dict[int, list[tuple[int, int]]] = {}
    for tiles in make_tiles(spans, 0, geometry, sight):
        seen |= seen_by_row(tiles, geometry)

    assert seen == expected


@given(data=st.data(), geometry=geometries(), sight=sights())
def test_what_a_pair_reads_that_its_sequence_does_not_hold_is_marked(
    data: st.DataObject, geometry: Geometry, sight: Sight
) -> None:
    size = geometry.block_size
    spans = data.draw(spans_of_a_step(size, sight))
    held = {place for span in spans for place in places(span, range(span.tables[0].first * size, span.stop), size)}

    for tiles in make_tiles(spans, 0, geometry, sight):
        for pairs in tiles.pairs:
            blocks = pairs.blocks.view(len(pairs.tiles), NUM_KV_HEADS, -1)[:, 0] // NUM_KV_HEADS
            for index, table in enumerate(blocks.tolist()):
                read = [(block, offset) for block in table for offset in range(size)]
                partly = index - pairs.num_full
                unheld = pairs.unheld[partly, 0, :, 0].tolist() if partly >= 0 else [False] * len(read)
                assert all(where in held for where, left_out in zip(read, unheld, strict=True) if not left_out)


@given(data=st.data(), geometry=geometries())
def test_every_row_is_in_one_tile(data: st.DataObject, geometry: Geometry) -> None:
    spans = data.draw(spans_of_a_step(geometry.block_size, Sight()))

    rows = [int(row) for tiles in make_tiles(spans, 0, geometry, Sight()) for row in tiles.rows]

    assert sorted(rows) == list(range(sum(span.length for span in spans)))


def test_a_short_chunk_takes_a_narrow_tile_and_a_long_one_wide_tiles() -> None:
    geometry = Geometry(block_size=2, num_kv_heads=1, split=4, narrow=2, wide=8, max_pairs=100)
    spans = (Span(0, 0, 1, (Table((0,)),)), Span(1, 0, 19, (Table(tuple(range(1, 11))),)))

    narrow, wide = make_tiles(spans, 0, geometry, Sight())

    assert narrow.queries.tolist() == [[0, 0]]
    assert wide.queries[:, 0].tolist() == [1, 9, 17]
    assert wide.queries[-1].tolist() == [17, 18, 19, 19, 19, 19, 19, 19]


def test_many_pairs_are_computed_in_bounded_slices() -> None:
    geometry = Geometry(block_size=2, num_kv_heads=1, split=2, narrow=1, wide=1, max_pairs=4)

    (tiles,) = make_tiles((Span(0, 12, 1, (Table(tuple(range(7))),)),), 0, geometry, Sight())

    assert [len(pairs.tiles) for pairs in tiles.pairs] == [4, 3]
    assert [pairs.num_full for pairs in tiles.pairs] == [4, 2]
