"""Recurrent states: a slot for whoever runs, checkpoints at borders that are worth it, hits that start from them."""

import pytest

from engine.cache.hits import Match
from engine.cache.slots import EVERY_ANSWER_BLOCKS, EVERY_BLOCKS, PROMPT_PART
from engine.cache.tables import BlockTables
from engine.ledger import Planned
from engine.sequence import Sequence
from tests.digest import LAYOUTS
from tests.engine.cache.places import a_sequence, answer, commit, compute, plan, some_tables, start

PROMPT = (2, 3, 4, 5, 6, 7, 8)  # three blocks of two, and one more
ON_THE_WAY = EVERY_BLOCKS * 2  # positions
LONG = tuple(range(2, 2 + ON_THE_WAY + 9))
BOOK = tuple(range(1000, 1000 + 4 * ON_THE_WAY + 1))


def some_slots(num_slots: int = 6, *, num_blocks: int = 60, prefix_caching: bool = True) -> BlockTables:
    return some_tables(
        num_blocks, layout=LAYOUTS["full and states"], num_slots=num_slots, prefix_caching=prefix_caching
    )


def running(tables: BlockTables, prompt: tuple[int, ...] = PROMPT, *, number: int = 1) -> Sequence:
    sequence = a_sequence(prompt, number=number)
    start(tables, sequence)
    return sequence


def known(tables: BlockTables, prompt: tuple[int, ...] = PROMPT, *, number: int = 1) -> None:
    sequence = running(tables, prompt, number=number)
    compute(tables, sequence, len(prompt))
    tables.release(sequence)


def found(tables: BlockTables, prompt: tuple[int, ...]) -> int:
    return tables.match(a_sequence(prompt, number=99)).num_positions


# -- a live state -----------------------------------------------------------------------------


def test_a_sequence_has_one_slot_from_its_start_to_its_end() -> None:
    tables = some_slots()
    first, second = running(tables), running(tables, (9, 9, 9), number=2)

    assert (first.held.slot, second.held.slot) == (0, 1)
    compute(tables, first, 3, 7)
    assert first.held.slot == 0
    tables.release(first)

    assert first.held.slot is None
    assert tables.states.pool.owners(0) == 0
    tables.check([second])


def test_the_first_step_starts_from_nothing_and_the_next_from_what_the_last_one_left() -> None:
    tables = some_slots()
    sequence = running(tables)

    first = tables.use_states(sequence, 3)
    assert first is not None
    assert (first.source, first.target) == (None, 0)
    tables.states.release(sequence.held)
    tables.preempt(sequence)
    start(tables, sequence)
    compute(tables, sequence, 3)
    second = tables.use_states(sequence, 7)

    assert second is not None
    assert (second.source, second.target) == (0, 0)


def test_a_model_without_recurrent_layers_has_no_states_to_use() -> None:
    tables = some_tables()
    sequence = running(tables)

    assert tables.use_states(sequence, 3) is None
    assert sequence.held.slot is None
    assert not tables.states.there


# -- where checkpoints are taken --------------------------------------------------------------


def test_a_prompt_leaves_a_checkpoint_at_its_last_border_that_leaves_a_token() -> None:
    for length, border in ((7, 6), (6, 4), (3, 2)):
        tables = some_slots()
        sequence = running(tables, PROMPT[:length])

        assert [position for position, _ in plan(tables, sequence, length)] == [border]


def test_a_prompt_within_its_first_block_leaves_none() -> None:
    tables = some_slots()

    assert plan(tables, running(tables, (2, 3)), 2) == ()


def test_the_checkpoint_comes_with_the_step_that_passes_its_border() -> None:
    tables = some_slots()
    sequence = running(tables)

    taken = []
    for upto in (3, 5, 6, 7):
        taken.append([position for position, _ in plan(tables, sequence, upto)])
        commit(tables, sequence, upto)

    assert taken == [[], [], [6], []]


def test_a_long_prompt_leaves_checkpoints_on_the_way() -> None:
    tables = some_slots()
    sequence = running(tables, LONG)

    assert [position for position, _ in plan(tables, sequence, len(LONG))] == [ON_THE_WAY, len(LONG) - 1]


@pytest.mark.parametrize(
    ("num_slots", "every"), [(4 * PROMPT_PART + 1, 1), (3 * PROMPT_PART + 1, 2), (1 * PROMPT_PART + 1, 4), (2, 4)]
)
def test_the_fewer_slots_there_are_the_farther_apart_those_on_the_way_stand(num_slots: int, every: int) -> None:
    tables = some_slots(num_slots, num_blocks=200)
    sequence = running(tables, BOOK)

    taken = []
    for upto in range(ON_THE_WAY, len(BOOK) - 1, ON_THE_WAY):
        taken += [position for position, _ in plan(tables, sequence, upto)]
        commit(tables, sequence, upto)

    assert taken == list(range(every * ON_THE_WAY, len(BOOK) - 1, every * ON_THE_WAY))
    tables.check([sequence])


def test_a_prompts_end_has_the_last_slot_before_those_on_the_way() -> None:
    tables = some_slots(num_slots=2)
    sequence = running(tables, LONG)

    assert [position for position, _ in plan(tables, sequence, len(LONG))] == [len(LONG) - 1]


def test_those_on_the_way_take_slots_that_nobody_used_for_longer() -> None:
    tables = some_slots(num_slots=4)
    for number, token in enumerate((9, 8, 7)):
        known(tables, (token,) * 3, number=2 + number)
    assert tables.states.counts().free == 1
    known(tables, (9, 9, 9), number=5)  # used again

    compute(tables, running(tables, LONG), ON_THE_WAY + 2)

    assert found(tables, (*LONG[: ON_THE_WAY + 2], 1)) == ON_THE_WAY
    assert [found(tables, (token,) * 3) for token in (9, 8, 7)] == [2, 0, 2]


def test_one_long_prompt_leaves_other_prompts_most_of_their_ends() -> None:
    tables = some_slots(num_slots=9, num_blocks=200)
    others = [(token,) * 3 for token in range(2, 10)]
    for number, prompt in enumerate(others):
        known(tables, prompt, number=2 + number)

    known(tables, (*BOOK, 1, 1))

    kept = [prompt for prompt in others if found(tables, prompt)]
    assert kept == others[-5:], "two are on the way, one is the end"
    assert found(tables, (*BOOK[: 3 * ON_THE_WAY], 1)) == 2 * ON_THE_WAY
    assert found(tables, (*BOOK, 1, 1)) == len(BOOK) + 1


def test_the_end_of_a_stem_that_others_share_is_worth_a_checkpoint() -> None:
    tables = some_slots()
    known(tables, (*PROMPT[:4], 90, 91, 92))
    sequence = a_sequence(PROMPT, number=2)

    match = start(tables, sequence)

    assert (match.num_positions, match.stem) == (0, 4)
    assert [position for position, _ in plan(tables, sequence, 7)] == [4, 6]
    commit(tables, sequence, 7)
    assert found(tables, (*PROMPT[:4], 80, 81, 82)) == 4


def test_without_rows_a_stem_is_known_by_its_keys_alone() -> None:
    tables = some_tables(layout=LAYOUTS["states"], num_slots=6)
    known(tables, (*PROMPT[:4], 90, 91, 92))

    assert tables.match(a_sequence(PROMPT, number=2)).stem == 4


def test_an_answer_leaves_a_checkpoint_every_few_blocks_and_only_the_last_stays() -> None:
    tables = some_slots(num_slots=8)
    sequence = running(tables)
    compute(tables, sequence, 6)
    every = EVERY_ANSWER_BLOCKS * 2

    answer(tables, sequence, *range(2, 2 + 2 * every))

    border = (len(sequence.tokens) - 1) // every * every
    assert border >= 2 * every
    tables.release(sequence)
    assert tables.states.counts().cached == 2, "the prompt's end, and the answer's last"
    assert found(tables, tuple(sequence.tokens)) == border
    assert found(tables, PROMPT) == 6


def test_an_answer_that_is_computed_again_takes_one_slot_a_step_on_the_way() -> None:
    tables = some_slots(num_slots=8)
    sequence = running(tables)
    every = EVERY_ANSWER_BLOCKS * 2
    compute(tables, sequence, 6)
    answer(tables, sequence, *range(2, 2 + 3 * every))
    tables.preempt(sequence)
    tables.seat(sequence, Match(0, (0,), ((),), None, 0))

    assert [position for position, _ in plan(tables, sequence, len(sequence.tokens))] == [3 * every, 3 * every + 6]


def test_an_answers_checkpoint_takes_the_slot_of_another_prompts() -> None:
    tables = some_slots(num_slots=2)
    known(tables, (9, 9, 9), number=2)
    sequence = running(tables)
    compute(tables, sequence, 5, 6)
    assert tables.states.counts().free == 0

    answer(tables, sequence, *range(2, 2 + EVERY_ANSWER_BLOCKS * 2))

    assert found(tables, tuple(sequence.tokens)) == EVERY_ANSWER_BLOCKS * 2


def test_without_prefix_caching_nobody_takes_checkpoints() -> None:
    tables = some_slots(prefix_caching=False)

    assert plan(tables, running(tables), 7) == ()


def test_where_no_slot_is_left_the_step_goes_without_its_checkpoint() -> None:
    tables = some_slots(num_slots=2)
    sequence, _ = running(tables), running(tables, (9, 9, 9), number=2)

    assert plan(tables, sequence, 7) == ()
    commit(tables, sequence, 7)
    assert found(tables, PROMPT) == 0


# -- when they are known ----------------------------------------------------------------------


def test_a_checkpoint_is_known_at_the_commit_and_not_before() -> None:
    tables = some_slots()
    sequence = running(tables)

    [(position, slot)] = plan(tables, sequence, 7)
    assert (found(tables, PROMPT), len(tables.states.index)) == (0, 0)
    assert tables.states.pool.owners(slot) == 1
    commit(tables, sequence, 7)

    assert tables.match(a_sequence(PROMPT, number=2)).checkpoint == slot
    assert found(tables, PROMPT) == position
    assert tables.states.counts().cached == 1
    tables.check([sequence])


def test_what_a_step_that_failed_has_written_is_never_known() -> None:
    tables = some_slots()
    sequence = running(tables)
    plan(tables, sequence, 7)

    tables.preempt(sequence)

    assert len(tables.states.index) == 0
    assert tables.states.counts().free == 6
    assert found(tables, PROMPT) == 0
    tables.check([sequence])


def test_a_checkpoint_beyond_what_was_computed_is_never_known() -> None:
    tables = some_slots()
    sequence = running(tables)
    plan(tables, sequence, 7)

    commit(tables, sequence, 5)

    assert len(tables.states.index) == 0
    assert tables.states.counts().free == 5


def test_of_two_equal_checkpoints_the_second_goes_back_as_free() -> None:
    tables = some_slots()
    first, second = running(tables, number=1), running(tables, number=2)
    compute(tables, first, 7)
    compute(tables, second, 7)

    assert tables.states.counts().cached == 1
    tables.release(first)
    tables.release(second)
    assert tables.states.counts().free == 5
    tables.check([])


# -- hits -------------------------------------------------------------------------------------


def test_a_hit_stops_at_a_checkpoint_however_much_more_the_blocks_hold() -> None:
    tables = some_slots()
    known(tables, (*PROMPT, 10, 11))

    assert found(tables, (*PROMPT, 10, 11, 12)) == 8
    assert found(tables, (*PROMPT, 10)) == 0
    match = tables.match(a_sequence((*PROMPT, 10), number=2))
    assert (match.tables, match.checkpoint, match.stem) == (((),), None, 6)


def test_a_hit_starts_from_its_checkpoint_and_lets_go_of_it_once_the_step_is_committed() -> None:
    tables = some_slots()
    known(tables)
    second = a_sequence((*PROMPT, 10), number=2)
    checkpoint = start(tables, second).checkpoint
    assert checkpoint is not None
    assert tables.states.pool.owners(checkpoint) == 1

    tables.reserve([(second, 8, 0)])
    use = tables.use_states(second, 8)
    assert use is not None
    assert (use.source, use.target) == (checkpoint, second.held.slot)
    assert use.target != checkpoint
    second.ledger.plan(Planned(8))
    commit(tables, second, 8)

    assert second.held.source is None
    assert tables.states.pool.owners(checkpoint) == 0
    assert found(tables, PROMPT) == 6, "it stays for others"
    tables.check([second])


def test_a_checkpoint_that_a_sequence_starts_from_is_not_evicted_under_it() -> None:
    tables = some_slots(num_slots=3)
    known(tables)
    second = a_sequence((*PROMPT, 10), number=2)
    checkpoint = start(tables, second).checkpoint
    assert checkpoint is not None

    [slot] = tables.states.pool.reserve(1)

    assert slot not in (checkpoint, second.held.slot)
    assert tables.states.index.knows(checkpoint)
    assert not tables.has_room(0, tables.match(a_sequence((*PROMPT, 10), number=3)))


def test_checkpoints_give_way_to_live_states() -> None:
    tables = some_slots(num_slots=3)
    known(tables)
    known(tables, (9, 9, 9), number=2)
    assert tables.states.counts().cached == 2

    alive = [running(tables, (30 + number, 1, 1), number=3 + number) for number in range(3)]

    assert [sequence.held.slot for sequence in alive] != [None] * 3
    assert tables.states.counts().allocated == 3
    assert len(tables.states.index) == 0
    tables.check(alive)


def test_nobody_starts_without_a_slot() -> None:
    tables = some_slots(num_slots=2)
    running(tables)
    other = a_sequence((9, 9, 9), number=2)
    assert tables.has_room(0, tables.match(other))

    running(tables, (8, 8, 8), number=3)

    assert not tables.has_room(0, tables.match(other))


def test_a_checkpoint_is_no_room_for_who_starts_from_it() -> None:
    tables = some_slots(num_slots=2)
    known(tables)
    running(tables, (9, 9, 9), number=2)
    heir, stranger = a_sequence((*PROMPT, 10), number=3), a_sequence((8, 8, 8), number=4)

    assert tables.has_room(0, tables.match(stranger))
    assert tables.match(heir).checkpoint is not None
    assert not tables.has_room(0, tables.match(heir))


def test_checkpoints_give_way_by_when_they_were_last_used() -> None:
    tables = some_slots(num_slots=5)
    known(tables, LONG)
    known(tables, (9, 9, 9), number=2)
    assert tables.states.counts().cached == 3
    known(tables, (*LONG[: ON_THE_WAY + 1], 1), number=3)  # starts from the one on the way

    tables.states.pool.reserve(tables.states.counts().free + 2)

    assert found(tables, (*LONG, 2)) == ON_THE_WAY, "the prompt's end is gone"
    assert found(tables, (9, 9, 9)) == 0
    assert found(tables, (*LONG[: ON_THE_WAY + 1], 1, 2)) == ON_THE_WAY


def test_a_prompt_that_fills_its_last_block_keeps_the_checkpoint_that_its_repetition_starts_from() -> None:
    tables = some_slots(num_slots=4)
    prompt = LONG[:-1]
    sequence = running(tables, prompt)
    answer(tables, sequence, 2)
    tables.release(sequence)
    assert len(prompt) % 2 == 0

    tables.states.pool.reserve(tables.states.counts().free + 1)

    assert found(tables, prompt) == len(prompt) - 2


# -- who waits for whom -----------------------------------------------------------------------


def test_a_recurrent_leader_is_who_is_about_to_leave_a_checkpoint_that_helps() -> None:
    tables = some_slots()
    leader, follower = running(tables), a_sequence((*PROMPT, 10), number=2)
    assert tables.leads(leader, follower, tables.match(follower))

    compute(tables, leader, 5)
    assert tables.leads(leader, follower, tables.match(follower)), "its blocks are there, and its checkpoint is not"
    compute(tables, leader, 7)

    assert tables.match(follower).num_positions == 6
    assert not tables.leads(leader, follower, tables.match(follower))


def test_nobody_waits_for_a_checkpoint_that_is_there_already() -> None:
    tables = some_slots()
    leader, twin = running(tables), running(tables, number=2)
    compute(tables, twin, 7)
    follower = a_sequence((*PROMPT, 10), number=3)

    assert tables.match(follower).num_positions == 6
    assert not tables.leads(leader, follower, tables.match(follower))


@pytest.mark.parametrize(
    "other", [(*PROMPT[:5], 99, 10), PROMPT[:5], (9, 9, 9, 9, 9, 9, 9)], ids=["a shorter stem", "too short", "foreign"]
)
def test_nobody_waits_for_a_checkpoint_that_would_not_help(other: tuple[int, ...]) -> None:
    tables = some_slots()
    leader, follower = running(tables), a_sequence(other, number=2)

    assert not tables.leads(leader, follower, tables.match(follower))


# -- the check --------------------------------------------------------------------------------


def test_a_check_finds_a_sequence_without_its_state_or_with_anothers() -> None:
    tables = some_slots()
    first, second = running(tables), running(tables, (9, 9, 9), number=2)
    compute(tables, first, 7)
    slot, first.held.slot = first.held.slot, None
    with pytest.raises(AssertionError, match="has 0 owners"):
        tables.check([first, second])

    first.held.slot = second.held.slot
    with pytest.raises(AssertionError, match="has 0 owners"):
        tables.check([first, second])

    first.held.slot = slot
    tables.check([first, second])
