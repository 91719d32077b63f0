"""Tables of groups whose layers see a window or a chunk: what they give back, when, and what that leaves to others."""

from collections.abc import Callable

import pytest

from engine.cache.layout import CacheGroup, Layout, Reach
from engine.cache.tables import BlockTables
from engine.held import GroupTable
from engine.sequence import Sequence
from tests.digest import LAYOUTS
from tests.engine.cache.places import a_sequence, answer, commit, compute, plan, some_tables, start
from tests.parts import blocks_of

LONG = tuple(range(2, 26))  # twelve blocks of two
FULL, WINDOW = 0, 1  # the groups of what follows
ROWS = LAYOUTS["full"].groups[0].rows
MIXED = Layout((CacheGroup((0,), ROWS), CacheGroup((1, 2, 3), ROWS, Reach.WINDOW, 5)))  # blocks of one and three units
CHUNKED = Layout((CacheGroup((0,), ROWS), CacheGroup((1,), ROWS, Reach.CHUNK, 6)))


def firsts(sequence: Sequence) -> list[int]:
    return [table.first for table in sequence.held.tables]


def running(tables: BlockTables, prompt: tuple[int, ...] = LONG, *, number: int = 1) -> Sequence:
    sequence = a_sequence(prompt, number=number)
    start(tables, sequence)
    return sequence


def test_blocks_of_several_units_are_missing_and_reserved_in_every_group() -> None:
    tables = some_tables(4, layout=MIXED)
    sequence = running(tables)

    assert [tables.num_missing(sequence, upto) for upto in (0, 2, 3, 8)] == [0, 4, 8, 16]
    assert tables.num_held_with(sequence, 7) == 2
    plan(tables, sequence, 3)

    assert [len(blocks_of(sequence, group)) for group in (FULL, WINDOW)] == [2, 2]
    assert tables.pool.num_available == 16 - 8
    commit(tables, sequence, 3)
    tables.check([sequence])


def test_a_step_gets_a_table_for_each_unit_of_a_block() -> None:
    tables = some_tables(4, layout=MIXED)
    sequence = running(tables)
    assert [table.units for table in tables.tables_of(sequence)] == [()] * 4

    plan(tables, sequence, 4)

    full, *window = tables.tables_of(sequence)
    assert full.units == tuple(blocks_of(sequence, FULL))
    units = [tables.pool.units(block) for block in blocks_of(sequence, WINDOW)]
    assert [table.units for table in window] == [tuple(each) for each in zip(*units, strict=True)]
    assert len({unit for table in (full, *window) for unit in table.units}) == 8


def test_a_window_gives_back_what_no_later_query_sees_and_full_attention_nothing() -> None:
    tables = some_tables(12, layout=MIXED)
    sequence = running(tables)

    seen = []
    for upto in range(1, 13):
        compute(tables, sequence, upto)
        seen.append(sequence.held.tables[WINDOW].first)

    assert seen == [max(0, upto + 1 - 5) // 2 for upto in range(1, 13)]
    assert firsts(sequence) == [0, 4]
    assert [len(blocks_of(sequence, group)) for group in (FULL, WINDOW)] == [6, 2]
    assert [table.first for table in tables.tables_of(sequence)] == [0, 4, 4, 4]
    tables.check([sequence])


def test_each_group_gives_back_by_its_own_window() -> None:
    layout = Layout((CacheGroup((0,), ROWS, Reach.WINDOW, 9), CacheGroup((1,), ROWS, Reach.WINDOW, 3)))
    tables = some_tables(12, layout=layout)
    sequence = running(tables)

    compute(tables, sequence, 12)

    assert firsts(sequence) == [(12 + 1 - 9) // 2, (12 + 1 - 3) // 2]
    tables.check([sequence])


def test_what_is_planned_gives_nothing_back_before_it_is_computed() -> None:
    tables = some_tables(12, layout=MIXED)
    sequence = running(tables)
    compute(tables, sequence, 6)
    before = firsts(sequence)

    plan(tables, sequence, 20)
    tables.index(sequence)  # as after a commit that moved nothing

    assert firsts(sequence) == before == [0, 1]
    commit(tables, sequence, 20)
    assert firsts(sequence) == [0, 8]


def test_chunks_are_given_back_when_the_next_one_begins_and_not_before() -> None:
    tables = some_tables(12, layout=CHUNKED)
    sequence = running(tables)

    seen = []
    for upto in range(1, 14):
        compute(tables, sequence, upto)
        seen.append(sequence.held.tables[1].first)

    assert seen == [0, 0, 0, 0, 0, 3, 3, 3, 3, 3, 3, 6, 6]


def test_a_window_that_begins_within_a_block_keeps_the_whole_block() -> None:
    layout = Layout((CacheGroup((0,), ROWS), CacheGroup((1,), ROWS, Reach.CHUNK, 3)))
    tables = some_tables(12, layout=layout)
    sequence = running(tables)

    compute(tables, sequence, 4)

    assert firsts(sequence) == [0, 1]  # the chunk from position 3 on begins in block 1
    assert len(blocks_of(sequence, 1)) == 1


def test_a_window_groups_blocks_stop_growing_with_the_sequence() -> None:
    tables = some_tables(100, layout=MIXED)
    sequence = running(tables, (2, 3, 4))
    most = 0

    for token in range(2, 60):
        answer(tables, sequence, token)
        most = max(most, len(blocks_of(sequence, WINDOW)))

    assert most == 3
    assert len(blocks_of(sequence, FULL)) == 30
    assert tables.num_wanted(sequence, len(sequence.tokens) + 20) == 11 + 3 * (3 - len(blocks_of(sequence, WINDOW)))


def test_a_block_given_back_behind_a_window_stays_known_until_its_units_are_taken() -> None:
    tables = some_tables(12, layout=MIXED)
    sequence = running(tables)
    compute(tables, sequence, *range(2, 25, 2))

    assert tables.pool.counts().cached == 3 * 10
    assert tables.group_counts()[WINDOW].cached == 3 * 10
    assert tables.group_counts()[FULL].cached == 0
    assert tables.match(a_sequence(LONG, number=2)).num_positions == 22
    tables.pool.release(tables.pool.reserve(tables.pool.num_available))

    assert tables.match(a_sequence(LONG, number=2)).num_positions == 0, "its own two blocks are no whole window at 22"


def test_a_shared_window_block_stays_with_the_one_who_still_sees_it() -> None:
    tables = some_tables(24, layout=MIXED)
    first = running(tables)
    compute(tables, first, 8)
    second = a_sequence((*LONG[:8], 90, 91, 92), number=2)
    assert start(tables, second).num_positions == 8
    shared = list(blocks_of(second, WINDOW))

    compute(tables, first, 24)

    assert [tables.pool.owners(block) for block in shared] == [1, 1]
    assert blocks_of(second, WINDOW) == shared
    tables.check([first, second])


def test_a_release_gives_back_every_group() -> None:
    tables = some_tables(12, layout=MIXED)
    sequence = running(tables)
    compute(tables, sequence, 9)

    tables.release(sequence)

    assert not sequence.held.anything
    assert tables.pool.num_available == 12 * 4
    tables.check([])


def lose_the_head(table: GroupTable) -> None:
    table.blocks.pop(0)
    table.first += 1


@pytest.mark.parametrize(
    ("group", "ruin", "law"),
    [
        (WINDOW, lambda table: table.blocks.pop(), "end together"),
        (FULL, lambda table: table.blocks.pop(0), "end together"),
        (FULL, lose_the_head, "still seen is still held"),
        (WINDOW, lose_the_head, "still seen is still held"),
    ],
)
def test_a_check_finds_tables_that_do_not_fit(group: int, ruin: Callable[[GroupTable], None], law: str) -> None:
    tables = some_tables(12, layout=MIXED)
    sequence = running(tables)
    compute(tables, sequence, 12)
    tables.check([sequence])

    ruin(sequence.held.tables[group])

    with pytest.raises(AssertionError, match=law):
        tables._check_tables(sequence)
