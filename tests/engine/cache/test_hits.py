"""Hits over several groups: the longest position that all of them, and a checkpoint, allow."""

import pytest
from hypothesis import given, strategies as st

from engine.cache.layout import CacheGroup, Layout, Reach
from engine.cache.prefix import PrefixIndex
from engine.cache.tables import BlockTables
from engine.sequence import Sequence
from tests.digest import LAYOUTS
from tests.engine.cache.mixtures import rows
from tests.engine.cache.places import BLOCK_SIZE, a_sequence, compute, some_tables, start

LONG = tuple(range(2, 26))  # twelve blocks of two
ROWS = LAYOUTS["full"].groups[0].rows
MIXED = Layout((CacheGroup((0,), ROWS), CacheGroup((1, 2, 3), ROWS, Reach.WINDOW, 5)))
TWO_WINDOWS = Layout((CacheGroup((0,), ROWS, Reach.WINDOW, 4), CacheGroup((1,), ROWS, Reach.WINDOW, 7)))
STATES = LAYOUTS["states"].states
OTHERS = {
    "two windows": TWO_WINDOWS,
    "two windows and states": Layout(TWO_WINDOWS.groups, STATES),
    "chunks and states": Layout((CacheGroup((0,), ROWS, Reach.CHUNK, 6),), STATES),
}
ALL = LAYOUTS | OTHERS


def known(tables: BlockTables, prompt: tuple[int, ...] = LONG, *, number: int = 1) -> Sequence:
    """Leave in the cache all that there is to know of a prompt."""
    sequence = a_sequence(prompt, number=number)
    start(tables, sequence)
    compute(tables, sequence, len(prompt))
    tables.release(sequence)
    return sequence


def evict(tables: BlockTables, prompt: tuple[int, ...], group: int, *numbers: int) -> None:
    """Let a group forget some blocks of a prompt."""
    for number in numbers:
        block = find(tables.indexes[group], tables, prompt, number)
        assert block is not None
        tables.pool.drop(block)


def find(index: PrefixIndex, tables: BlockTables, prompt: tuple[int, ...], number: int) -> int | None:
    sequence = a_sequence(prompt, number=99)
    tables.match(sequence)  # which makes its keys
    return index.find(tables._prefix(sequence), number)


def found(tables: BlockTables, prompt: tuple[int, ...] = LONG) -> int:
    return tables.match(a_sequence(prompt, number=99)).num_positions


def test_a_hit_over_windows_has_only_the_blocks_that_are_seen_from_its_end_on() -> None:
    tables = some_tables(12, layout=MIXED)
    known(tables)

    match = tables.match(a_sequence((*LONG, 90), number=2))

    assert (match.num_positions, match.firsts) == (24, (0, 10))
    assert [len(table) for table in match.tables] == [12, 2]


def test_a_hole_behind_the_window_costs_nothing_and_one_within_it_moves_the_hit_before_it() -> None:
    tables = some_tables(12, layout=MIXED)
    known(tables)

    evict(tables, LONG, 1, *range(9))
    assert found(tables) == 22
    evict(tables, LONG, 1, 9)
    assert found(tables) == 0, "nowhere is a whole window left"


def test_a_hole_in_full_attention_ends_every_hit_there_and_the_window_before_it_must_be_whole() -> None:
    tables = some_tables(12, layout=MIXED)
    known(tables)

    evict(tables, LONG, 0, 7)
    assert found(tables) == 14
    evict(tables, LONG, 1, 6)
    assert found(tables) == 12
    evict(tables, LONG, 1, 4)
    assert found(tables) == 8


def test_two_windows_must_be_whole_at_the_same_place() -> None:
    tables = some_tables(12, layout=TWO_WINDOWS)  # which see three and six positions back
    known(tables)

    evict(tables, LONG, 0, 9)
    assert found(tables) == 18
    evict(tables, LONG, 1, 6)
    assert found(tables) == 12
    evict(tables, LONG, 0, 5)
    assert found(tables) == 10, "the first window is looked at again where the second ended"


def test_a_hit_leaves_a_token_to_compute_in_every_group() -> None:
    tables = some_tables(12, layout=MIXED)
    known(tables)

    assert [found(tables, LONG[:length]) for length in (1, 2, 3, 4, 5)] == [0, 0, 2, 2, 4]


def test_a_chunk_that_begins_at_the_hit_needs_nothing_of_the_one_before() -> None:
    tables = some_tables(12, layout=Layout((CacheGroup((0,), ROWS), CacheGroup((1,), ROWS, Reach.CHUNK, 6))))
    known(tables)

    evict(tables, LONG, 1, *range(9))
    match = tables.match(a_sequence(LONG, number=2))
    assert (match.num_positions, match.firsts) == (22, (0, 9))
    evict(tables, LONG, 1, 9)
    match = tables.match(a_sequence(LONG, number=2))
    assert (match.num_positions, match.firsts, match.tables[1]) == (18, (0, 9), ())


def test_a_hit_is_found_without_trying_every_length(monkeypatch: pytest.MonkeyPatch) -> None:
    tables = some_tables(200, layout=MIXED)
    prompt = tuple(range(2, 162))
    known(tables, prompt)
    evict(tables, prompt, 1, *range(0, 80, 2))
    sequence, num_finds = a_sequence(prompt, number=2), 0
    really_find = PrefixIndex.find

    def counted(index: PrefixIndex, *args: object) -> int | None:
        nonlocal num_finds
        num_finds += 1
        return really_find(index, *args)  # type: ignore[arg-type]  # as it was called

    monkeypatch.setattr(PrefixIndex, "find", counted)

    assert tables.match(sequence).num_positions == 0
    assert num_finds <= 3 * 80


def longest_by_trial(tables: BlockTables, sequence: Sequence) -> int:
    """The longest valid position, by trying every length: slow and plain."""
    prefix = tables._prefix(sequence)
    keeps_all = any(group.reach is Reach.FULL for group in tables.layout.groups)

    def is_valid(count: int) -> bool:
        for group, index in zip(tables.layout.groups, tables.indexes, strict=True):
            first = group.first_seen(count * BLOCK_SIZE) // BLOCK_SIZE
            if not keeps_all:  # something must tell that these tokens were computed once
                first = min(first, count - 1)
            if any(index.find(prefix, number) is None for number in range(first, count)):
                return False
        return not tables.states.there or tables.states.index.find(prefix, count - 1) is not None

    most = min(sequence.max_hit // BLOCK_SIZE, len(sequence.keys))
    return max((count for count in range(1, most + 1) if is_valid(count)), default=0) * BLOCK_SIZE


PROMPTS = (LONG, (*LONG[:9], *range(40, 55)), (*LONG[:16], 60, 61, 62), LONG[:7])


@given(
    layout=st.sampled_from(sorted(ALL)),
    steps=st.lists(st.tuples(st.sampled_from(PROMPTS), st.integers(1, 24)), min_size=1, max_size=4),
    evictions=st.lists(st.integers(0, 200), max_size=25),
    lost_checkpoints=st.lists(st.integers(0, 20), max_size=3),
    probe=st.sampled_from(PROMPTS),
)
def test_a_hit_is_the_longest_position_that_is_valid_in_all_groups(
    layout: str,
    steps: list[tuple[tuple[int, ...], int]],
    evictions: list[int],
    lost_checkpoints: list[int],
    probe: tuple[int, ...],
) -> None:
    tables = some_tables(60, layout=ALL[layout], num_slots=12 if ALL[layout].states else 0)
    for number, (prompt, chunk) in enumerate(steps):
        sequence = a_sequence(prompt, number=number)
        match = start(tables, sequence)
        compute(tables, sequence, *range(match.num_positions + chunk, len(prompt), chunk), len(prompt))
        tables.release(sequence)
    for pool, victims in ((tables.pool, evictions), (tables.states.pool, lost_checkpoints)):
        for victim in victims:
            if pool._cached:
                pool.drop(sorted(pool._cached)[victim % len(pool._cached)])
    sequence = a_sequence(probe, number=99)

    match = tables.match(sequence)

    assert match.num_positions == longest_by_trial(tables, sequence)
    prefix, count = tables._prefix(sequence), match.num_positions // BLOCK_SIZE
    for index, first, blocks in zip(tables.indexes, match.firsts, match.tables, strict=True):
        assert blocks == tuple(index.find(prefix, number) for number in range(first, count))
    at_end = tables.states.index.find(prefix, count - 1) if tables.states.there and count else None
    assert match.checkpoint == at_end
    start(tables, sequence)
    tables.check([sequence])


def test_a_prompt_that_nobody_computed_has_no_hit_where_nothing_is_seen_behind_a_border() -> None:
    chunked = Layout((CacheGroup((0,), rows(1, 8), Reach.CHUNK, 4),))

    assert some_tables(40, layout=chunked).match(a_sequence(LONG, number=1)).num_positions == 0
