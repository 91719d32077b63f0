import asyncio
from collections.abc import Callable, Iterator

import pytest

from engine.errors import Draining, EmptyPrompt, EngineStopped, GrammarRefused, SlowReader, StepFailed
from engine.grammar.grammars import no_grammars
from engine.request import Delta, End, FinishReason
from engine.sequence import Sequence, State
from engine.stats import StepRecord
from tests.laws.held_runner import HeldRunner, StepBroke
from tests.laws.shape import Shape
from tests.laws.world import World
from tests.parts import a_request, blocks_of
from tests.toy_grammar import NARROW, WIDE, WRONG

FEW = Shape(num_blocks=8, block_size=2, max_sequences=3)


@pytest.fixture
def worlds() -> Iterator[list[World]]:
    """Worlds to be closed."""
    opened: list[World] = []
    yield opened
    for world in opened:
        world.close()


@pytest.fixture
def world(worlds: list[World]) -> World:
    worlds.append(World(FEW))
    return worlds[0]


def end_of(world: World, index: int = 0) -> End:
    end = world.clients[index].deltas[-1].end
    assert end is not None
    return end


def num_tokens(deltas: list[Delta]) -> int:
    return sum(len(delta.tokens) for delta in deltas)


def finish(world: World, count: int) -> None:
    for _ in range(count):
        world.finish()
        world.check()


# -- serving ----------------------------------------------------------------------------------


def test_requests_that_meet_are_each_answered_as_if_alone(world: World) -> None:
    world.open([a_request(id="first", max_tokens=6), a_request(id="twin", max_tokens=6)], eager=True)
    world.open([a_request((6, 7, 6), id="other", num_choices=2)], eager=True)

    world.drain()

    assert [end_of(world, index).reason for index in range(3)] == [FinishReason.LENGTH] * 3
    assert end_of(world, 1).usage.cached_tokens == 4


def test_an_outcome_is_published_while_the_next_step_is_in_flight(world: World) -> None:
    world.open([a_request((2, 3), max_tokens=4)], eager=True)

    world.finish()

    assert world.runner.flight is not None
    assert num_tokens(world.clients[0].deltas) == 1


def test_nothing_runs_without_work_and_a_request_wakes_the_engine(world: World) -> None:
    assert world.runner.flight is None

    world.open([a_request(max_tokens=1)], eager=True)
    finish(world, 1)

    assert world.runner.flight is None
    assert end_of(world).reason is FinishReason.LENGTH


def test_an_abort_is_a_flag_until_the_step_in_flight_has_ended(world: World) -> None:
    world.open([a_request((2, 3), id="first"), a_request((4, 5), id="second")], eager=True)
    world.leave(world.clients[0], abruptly=True)
    assert world.engine.snapshot().blocks.allocated == 2

    finish(world, 1)

    assert [view.request_id for view in world.engine.snapshot().sequences] == ["second"]
    assert world.engine.snapshot().disconnects == 1
    world.drain()


def test_one_choice_more_or_less_changes_nothing_for_the_others(world: World) -> None:
    world.open([a_request((2, 3), num_choices=3, max_tokens=3), a_request((6, 6), id="other")], eager=True)
    finish(world, 2)
    world.leave(world.clients[0], abruptly=False)

    world.drain()

    assert end_of(world, 1).reason is FinishReason.LENGTH
    assert world.engine.snapshot().blocks.allocated == 0


def test_a_slow_readers_sequence_pauses_goes_on_when_read_and_ends_after_the_limit(world: World) -> None:
    world.open([a_request((6, 7), max_tokens=12)], eager=False)  # whose outputs all have text at once
    finish(world, FEW.max_buffered_deltas + 1)
    assert world.runner.flight is None
    assert world.engine.snapshot().paused == 1

    world.clients[0].allow(3)
    world.settle()
    assert world.runner.flight is not None
    finish(world, 3)
    world.loop.advance(FEW.slow_reader_seconds + 1)
    world.drain()

    assert isinstance(end_of(world).error, SlowReader)


# -- parking ----------------------------------------------------------------------------------


def test_a_client_that_comes_back_gets_the_rest_as_if_it_had_stayed(world: World) -> None:
    world.open([a_request((2, 3), max_tokens=8), a_request((2, 3), id="twin", max_tokens=8)], eager=True)
    finish(world, 3)

    world.park(world.clients[0])
    finish(world, 1)  # the step that was in flight
    shown = world.engine.snapshot()
    assert (shown.running, shown.parked, shown.disconnects) == (1, 1, 1)
    finish(world, 2)
    world.unpark(world.clients[0])
    world.drain()

    assert [end_of(world, index).reason for index in range(2)] == [FinishReason.LENGTH] * 2
    assert world.engine.snapshot().parked == 0


def test_a_parked_request_holds_no_block(world: World) -> None:
    world.open([a_request((2, 3), max_tokens=8)], eager=True)
    finish(world, 3)

    world.park(world.clients[0])
    finish(world, 1)

    shown = world.engine.snapshot()
    assert world.runner.flight is None
    assert (shown.running, shown.waiting, shown.paused, shown.parked) == (0, 0, 0, 1)
    assert (shown.blocks.allocated, shown.blocks.shared) == (0, 0)


def test_a_drain_ends_what_is_parked(world: World) -> None:
    world.open([a_request((2, 3), max_tokens=8)], eager=True)
    finish(world, 3)
    world.park(world.clients[0])
    finish(world, 1)

    world.engine.drain()
    world.settle()
    assert world.engine.snapshot().sequences == ()
    world.clients[0].excuses.add(EngineStopped)
    world.unpark(world.clients[0])
    world.drain()

    assert isinstance(end_of(world).error, EngineStopped)


# -- failures ---------------------------------------------------------------------------------


def test_a_step_that_fails_is_run_again_and_nobody_notices(world: World) -> None:
    world.open([a_request((2, 3), id="first"), a_request((4, 5), id="second")], eager=True)
    finish(world, 1)

    world.fail()
    world.drain()

    assert [end_of(world, index).reason for index in range(2)] == [FinishReason.LENGTH] * 2


@pytest.mark.parametrize("position", [0, 3, 9])
def test_a_request_that_no_step_survives_is_ended_alone(worlds: list[World], position: int) -> None:
    world = World(Shape(num_blocks=16, max_context=32, max_step_positions=3))
    worlds.append(world)
    requests = [a_request((token, 3, 4, 5, 2, 3, 4, 5), id=f"{token}", max_tokens=6) for token in (2, 4, 6)]
    world.open(requests, eager=True)
    world.curse(world.clients[1], position)

    world.drain()

    failed = end_of(world, 1)
    assert isinstance(failed.error, StepFailed)
    assert "the step broke off" in str(failed.error)
    assert [end_of(world, index).reason for index in (0, 2)] == [FinishReason.LENGTH] * 2


def test_an_engine_whose_every_step_fails_gives_up_and_ends_every_stream(world: World) -> None:
    for number in range(2, 8):
        world.open([a_request((number, 3), id=f"{number}")], eager=True)

    for _ in range(FEW.max_sequences + 1):
        world.fail()
        world.check()
    world.fail()
    with pytest.raises(StepBroke):
        world.check()

    assert not world.engine.accepting
    for client in world.clients:
        assert client.deltas[-1].end is not None
        assert client.deltas[-1].end.reason is FinishReason.ERROR


@pytest.mark.parametrize(
    "ruin",
    [lambda sequence: sequence.tokens.append(0), lambda sequence: blocks_of(sequence).append(0)],
    ids=["tokens", "blocks"],
)
def test_a_law_that_is_broken_ends_the_engine_and_every_stream(world: World, ruin: Callable[[Sequence], None]) -> None:
    world.open([a_request((2, 3), id="first"), a_request((4, 5), id="second")], eager=True)
    finish(world, 1)
    ruin(world.engine._roster.running[0])

    with pytest.raises(AssertionError):
        world.finish()
    world.settle()

    for index in range(2):
        assert isinstance(end_of(world, index).error, EngineStopped)


def test_a_worker_that_is_reborn_changes_no_answer(world: World) -> None:
    world.open([a_request((2, 3), id="first", max_tokens=5), a_request((4, 5), id="second")], eager=True)
    finish(world, 2)

    world.answer_stale(HeldRunner.answer_after_rebirth)
    world.drain()

    assert [end_of(world, index).reason for index in range(2)] == [FinishReason.LENGTH] * 2


# -- the end ----------------------------------------------------------------------------------


def test_a_draining_engine_refuses_new_requests_and_serves_the_others(world: World) -> None:
    world.open([a_request((2, 3))], eager=True)
    world.engine.drain()

    with pytest.raises(Draining):
        world.engine.open(a_request((2, 3), id="late"))
    assert not world.engine.accepting
    world.drain()

    assert end_of(world).reason is FinishReason.LENGTH
    assert world.engine.snapshot().refusals == {"Draining": 1}


def test_drained_waits_for_the_last_end(world: World) -> None:
    world.open([a_request((2, 3), max_tokens=2)], eager=True)
    drained = world.loop.create_task(world.engine.drained())
    finish(world, 1)
    assert not drained.done()

    finish(world, 1)

    assert drained.done()


def test_a_stop_ends_every_request_in_every_state(worlds: list[World]) -> None:
    world = World(Shape(num_blocks=4, max_sequences=2))
    worlds.append(world)
    world.open([a_request((number, 3), id=f"{number}") for number in (2, 3, 4, 5)], eager=True)
    finish(world, 1)
    states = {sequence.state for sequence in world.watch.unfinished}
    assert states == {State.RUNNING, State.WAITING}

    world.stop()

    for index in range(4):
        assert isinstance(end_of(world, index).error, EngineStopped)


def test_a_stop_that_is_asked_for_while_nothing_runs_is_heard(world: World) -> None:
    world.stop()

    assert not world.engine.accepting


# -- what can be seen -------------------------------------------------------------------------


def test_every_step_is_shown_to_observers_with_what_was_published(world: World) -> None:
    records = list[StepRecord]()
    world.engine.observe(records.append)
    world.open([a_request((2, 3, 4), max_tokens=2)], eager=True)

    world.drain()

    assert [(row.chunk, row.planned, row.computed, row.accepted) for record in records for row in record.rows] == [
        ((0, 3), 3, 3, 4),
        ((3, 4), 4, 4, 5),
    ]
    assert [row.published for record in records for row in record.rows][-1] == 5
    assert [record.step for record in records] == [1, 2]


def test_a_step_that_takes_too_long_is_a_stall(world: World) -> None:
    world.open([a_request((2, 3), max_tokens=1)], eager=True)
    assert not world.engine.stalled

    world.loop.advance(world.shape.settings().stall_seconds + 1)
    assert world.engine.stalled
    finish(world, 1)

    assert not world.engine.stalled


def test_a_refused_request_leaves_no_trace_but_its_count(world: World) -> None:
    with pytest.raises(EmptyPrompt):
        world.engine.open(a_request(()))

    shown = world.engine.snapshot()
    assert shown.refusals == {"EmptyPrompt": 1}
    assert shown.sequences == ()


def test_once_quiet_the_published_positions_are_the_sum_of_all_usage(world: World) -> None:
    world.open([a_request((2, 3), num_choices=2, max_tokens=3), a_request((6, 7), id="other")], eager=True)

    world.drain()

    ends = [delta.end for client in world.clients for delta in client.deltas if delta.end]
    shown = world.engine.snapshot()
    assert shown.positions.published == sum(end.usage.output_tokens for end in ends) == 10
    assert (shown.running, shown.waiting, shown.paused) == (0, 0, 0)
    assert shown.blocks.free + shown.blocks.cached == FEW.num_blocks


def test_plans_are_numbered_from_one(world: World) -> None:
    world.open([a_request((2, 3), max_tokens=3)], eager=True)

    world.drain()

    assert [plan.number for plan in world.runner.plans] == [1, 2, 3]
    assert world.engine.snapshot().steps == 3


def test_the_loop_of_the_engine_can_be_cancelled_and_ends_every_stream(world: World) -> None:
    world.open([a_request((2, 3))], eager=True)

    world._engine_task.cancel()
    world.settle()

    assert world._engine_task.cancelled()
    assert isinstance(end_of(world).error, EngineStopped)
    assert isinstance(world._engine_task, asyncio.Task)


# -- grammars ---------------------------------------------------------------------------------


def test_a_grammar_may_be_made_ready_before_its_request_comes(world: World) -> None:
    world.loop.run_until_complete(world.engine.prepare(NARROW))
    world.loop.run_until_complete(world.engine.prepare(NARROW))

    shown = world.engine.snapshot()
    assert shown.grammars == {"compiled": 1, "cached": 1}
    assert sum(shown.grammar_seconds.counts) == 1
    world.open([a_request(id="prepared", grammar=NARROW), a_request(id="not prepared", grammar=WIDE)], eager=True)

    world.drain()


def test_a_wrong_grammar_is_refused_at_the_door_and_counted(world: World) -> None:
    with pytest.raises(GrammarRefused):
        world.engine.open(a_request(grammar=WRONG))
    with pytest.raises(GrammarRefused):
        world.loop.run_until_complete(world.engine.prepare(WRONG))

    shown = world.engine.snapshot()
    assert shown.refusals == {"GrammarRefused": 2}
    assert shown.grammars == {"refused": 1}
    assert not world.watch.unfinished


def test_a_request_that_finds_no_place_leaves_no_matcher(world: World) -> None:
    with pytest.raises(EmptyPrompt):
        world.engine.open(a_request((), grammar=WIDE))

    assert not world.engine._grammars._records


def test_an_engine_without_grammars_says_so() -> None:
    grammars = no_grammars(18)

    with pytest.raises(GrammarRefused, match="has no grammars"):
        grammars.compiled(a_request(grammar=WIDE))
    assert grammars.compiled(a_request()) is None
