import pytest

from engine.ledger import Accepted, Computed, Planned
from engine.sequence import Sequence
from tests.engine.cache.places import PROMPT, a_sequence, compute, computed, found, some_tables, start
from tests.parts import blocks_of

NOTHING = ((), 0)


def test_a_sequence_lacks_the_blocks_of_positions_that_it_has_no_place_for() -> None:
    tables, sequence = some_tables(), a_sequence()
    start(tables, sequence)
    tables.reserve([(sequence, 3, 0)])

    assert [tables.num_missing(sequence, upto) for upto in (0, 4, 5, 8)] == [0, 0, 1, 2]


def test_a_reservation_gives_every_sequence_all_its_blocks() -> None:
    tables, first, second = some_tables(), a_sequence(number=1), a_sequence(number=2)
    start(tables, first)
    start(tables, second)

    tables.reserve([(first, 5, 0), (second, 2, 0)])

    assert (blocks_of(first), blocks_of(second)) == ([0, 1, 2], [3])


def test_a_reservation_that_does_not_fit_takes_nothing() -> None:
    tables, first, second = some_tables(num_blocks=3), a_sequence(number=1), a_sequence(number=2)
    start(tables, first)
    start(tables, second)

    with pytest.raises(AssertionError, match="the plan fits the pool"):
        tables.reserve([(first, 4, 0), (second, 4, 0)])

    assert blocks_of(first) == blocks_of(second) == []
    assert tables.pool.num_available == 3


def test_blocks_are_known_once_they_are_computed_and_not_before() -> None:
    tables, sequence, twin = some_tables(), a_sequence(number=1), a_sequence(number=2)
    start(tables, sequence)
    tables.reserve([(sequence, 6, 0)])
    sequence.ledger.plan(Planned(6))

    assert found(tables.match(twin)) == NOTHING

    sequence.ledger.commit(Computed(3), Accepted(6))
    tables.index(sequence)
    assert found(tables.match(twin)) == ((0,), 2)


def test_a_hit_leaves_a_token_to_compute() -> None:
    tables = some_tables()
    sequence = a_sequence()
    start(tables, sequence)
    compute(tables, sequence, 6)

    assert found(tables.match(a_sequence(number=2))) == ((0, 1), 4)
    assert found(tables.match(a_sequence((*PROMPT, 7), number=3))) == ((0, 1, 2), 6)


def test_a_request_that_wants_the_prompts_logprobs_takes_no_hit_and_leaves_its_blocks_to_others() -> None:
    tables = some_tables()
    scoring = a_sequence(number=1, prompt_logprobs=0)
    start(tables, scoring)
    compute(tables, scoring, 6)

    assert found(tables.match(a_sequence(number=2, prompt_logprobs=0))) == NOTHING
    assert found(tables.match(a_sequence(number=3))) == ((0, 1), 4)


def test_a_matched_block_is_shared_and_not_written() -> None:
    tables = some_tables()
    first = computed(tables, a_sequence(number=1))
    second = a_sequence(number=2)

    start(tables, second)
    compute(tables, second, 6)

    assert blocks_of(second)[:2] == blocks_of(first)[:2]
    assert tables.view(second)[0].blocks == ((0, 2), (1, 2), (3, 1))
    tables.check([first, second])


def test_without_prefix_caching_nothing_is_known() -> None:
    tables = some_tables(prefix_caching=False)
    computed(tables, a_sequence(number=1))

    assert found(tables.match(a_sequence(number=2))) == NOTHING
    assert len(tables.indexes[0]) == 0


def test_without_prefix_caching_nobody_waits_for_what_another_computes() -> None:
    tables = some_tables(prefix_caching=False)
    leader, follower = a_sequence(number=1), a_sequence(number=2)
    start(tables, leader)

    assert not tables.leads(leader, follower, tables.match(follower))


def test_a_sequence_that_ends_leaves_its_full_blocks_to_later_ones() -> None:
    tables = some_tables()
    sequence = computed(tables, a_sequence(number=1))

    tables.release(sequence)

    assert list(sequence.held.blocks()) == []
    assert tables.pool.counts().cached == 2
    assert found(tables.match(a_sequence(number=2))) == ((0, 1), 4)


def test_of_a_released_table_the_head_is_evicted_last() -> None:
    tables = some_tables(num_blocks=4)
    tables.release(computed(tables, a_sequence(number=1)))
    other = a_sequence((9, 9, 9, 9, 9, 9), number=2)
    start(tables, other)

    tables.reserve([(other, 6, 0)])

    assert found(tables.match(a_sequence(number=3))) == ((0,), 2)


def test_a_preempted_sequence_keeps_its_tokens_and_finds_its_own_blocks_again() -> None:
    tables = some_tables()
    sequence = computed(tables, a_sequence())
    epoch = sequence.epoch

    tables.preempt(sequence)
    assert (list(sequence.held.blocks()), sequence.ledger.computed, sequence.epoch) == ([], 0, epoch + 1)
    assert (sequence.held.num_blocks, sequence.held.num_indexed) == (0, 0)

    assert found(start(tables, sequence)) == ((0, 1), 4)
    assert tuple(sequence.tokens) == PROMPT
    tables.check([sequence])


def test_blocks_of_equal_content_are_known_once_and_the_others_go_back_as_free() -> None:
    tables, first, second = some_tables(), a_sequence(number=1), a_sequence(number=2)
    start(tables, first)
    start(tables, second)
    compute(tables, first, 5)
    compute(tables, second, 5)

    tables.release(second)
    tables.release(first)

    assert tables.pool.counts().cached == 2
    tables.check([])


def test_a_leader_is_who_is_about_to_compute_the_followers_next_block() -> None:
    tables, leader, follower = some_tables(), a_sequence(number=1), a_sequence(number=2)
    start(tables, leader)
    match = tables.match(follower)
    assert tables.leads(leader, follower, match)

    compute(tables, leader, 3)

    assert not tables.leads(leader, follower, match), "the block is there: the match is out of date"
    assert tables.leads(leader, follower, tables.match(follower))
    compute(tables, leader, 5)
    assert not tables.leads(leader, follower, tables.match(follower)), "the last block is the follower's own"


@pytest.mark.parametrize(
    "other",
    [a_sequence((9, 9, 4, 5, 2, 3), number=2), a_sequence(number=2, salt="tenant"), a_sequence((2, 3), number=2)],
    ids=["other tokens", "another tenant", "too short"],
)
def test_nobody_waits_for_blocks_that_would_not_help(other: Sequence) -> None:
    tables, leader = some_tables(), a_sequence(number=1)
    start(tables, leader)

    assert not tables.leads(leader, other, tables.match(other))


def test_a_check_finds_a_table_that_would_write_a_shared_block() -> None:
    tables = some_tables()
    first = computed(tables, a_sequence(number=1))
    second = a_sequence(number=2)
    start(tables, second)
    second.ledger.invalidate()

    with pytest.raises(AssertionError, match="would write shared block 0"):
        tables.check([first, second])


def test_a_check_finds_a_plan_without_places() -> None:
    tables, sequence = some_tables(), a_sequence()
    sequence.ledger.plan(Planned(3))

    with pytest.raises(AssertionError, match="lacks places"):
        tables.check([sequence])
