import pytest

from engine.course import Event
from engine.errors import ContextTooLong, EmptyPrompt, QueueFull, RequestRefused, UnknownToken
from engine.request import Request, Sampling, Stopping
from engine.sequence import Sequence, State
from tests.digest import VOCABULARY_SIZE
from tests.laws.shape import Shape
from tests.parts import Parts, a_request, blocks_of


def states(*sequences: Sequence) -> list[State]:
    return [sequence.state for sequence in sequences]


def asking_for(*, stop_ids: frozenset[int] = frozenset(), bias: tuple[tuple[int, float], ...] = ()) -> Request:
    return Request("request", (2,), Sampling(seed=0, logit_bias=bias), Stopping(token_ids=stop_ids))


# -- the door ---------------------------------------------------------------------------------


def test_a_prompt_without_tokens_is_refused() -> None:
    with pytest.raises(EmptyPrompt):
        Parts().offer(a_request(()))


def test_a_request_is_examined_without_a_place_in_the_queue() -> None:
    parts = Parts()

    parts.admission.examine(a_request())
    with pytest.raises(EmptyPrompt):
        parts.admission.examine(a_request(()))

    assert len(parts.roster) == 0
    assert parts.stats.refusals == {"EmptyPrompt": 1}


@pytest.mark.parametrize(
    ("request_", "field", "token"),
    [
        (a_request((2, VOCABULARY_SIZE)), "prompt", VOCABULARY_SIZE),
        (a_request((-1, 2)), "prompt", -1),
        (asking_for(stop_ids=frozenset({3, 10**9})), "stop_token_ids", 10**9),
        (asking_for(bias=((3, 1.0), (-5, 1.0))), "logit_bias", -5),
    ],
)
def test_a_token_outside_the_vocabulary_is_refused_with_its_field(request_: Request, field: str, token: int) -> None:
    with pytest.raises(UnknownToken) as refusal:
        Parts().offer(request_)

    assert (refusal.value.field, refusal.value.token) == (field, token)
    assert refusal.value.vocabulary_size == VOCABULARY_SIZE


def test_a_prompt_that_leaves_no_room_for_a_token_is_refused_with_the_numbers() -> None:
    parts = Parts(Shape(max_context=6))

    with pytest.raises(ContextTooLong) as refusal:
        parts.offer(a_request((2,) * 6))

    assert (refusal.value.prompt_tokens, refusal.value.limit) == (6, 6)
    assert len(parts.roster) == 0


def test_a_request_that_chooses_nothing_may_fill_the_context() -> None:
    parts = Parts(Shape(max_context=6))

    sequence = parts.offer(a_request((2,) * 6, max_tokens=0))

    assert sequence.max_length == 6


@pytest.mark.parametrize(("max_tokens", "max_length"), [(None, 12), (3, 8), (99, 12), (0, 5)])
def test_what_does_not_fit_is_cut_to_the_context(max_tokens: int | None, max_length: int) -> None:
    parts = Parts(Shape(max_context=12))

    assert parts.offer(a_request((2, 3, 4, 5, 2), max_tokens=max_tokens)).max_length == max_length


def test_the_queue_is_bounded_beside_the_free_seats() -> None:
    parts = Parts(Shape(max_sequences=2, max_waiting=3))
    for number in range(5):
        parts.offer(a_request(id=f"request-{number}"))

    with pytest.raises(QueueFull) as refusal:
        parts.offer(a_request(id="one too many"))

    assert (refusal.value.waiting, refusal.value.limit) == (5, 3)


def test_the_queue_counts_requests_and_not_their_choices() -> None:
    parts = Parts(Shape(max_sequences=1, max_waiting=1))
    parts.offer(a_request(id="first", num_choices=9))

    parts.offer(a_request(id="second", num_choices=9))

    assert len(parts.roster.waiting) == 18


def test_a_preempted_sequence_takes_no_place_in_the_queue() -> None:
    parts = Parts(Shape(max_sequences=1, max_waiting=1))
    sequence = parts.run(a_request(id="first"))
    parts.preempt(sequence)

    parts.offer(a_request(id="second"))
    parts.offer(a_request(id="third"))

    with pytest.raises(QueueFull):
        parts.offer(a_request(id="fourth"))


def test_refusals_are_counted_by_class() -> None:
    parts = Parts()
    for prompt in ((), (), (VOCABULARY_SIZE,)):
        with pytest.raises(RequestRefused):
            parts.offer(a_request(prompt))

    assert parts.stats.refusals == {"EmptyPrompt": 2, "UnknownToken": 1}


# -- starting ---------------------------------------------------------------------------------


def test_sequences_start_in_order_while_there_are_seats() -> None:
    parts = Parts(Shape(max_sequences=2))
    sequences = [parts.offer(a_request((number, 2, 3), id=f"{number}")) for number in (4, 5, 6)]

    parts.admit()

    assert states(*sequences) == [State.RUNNING, State.RUNNING, State.WAITING]


def test_sequences_start_while_there_are_blocks_for_all_that_they_know() -> None:
    parts = Parts(Shape(num_blocks=5, block_size=2))
    sequences = [parts.offer(a_request((number, 2, 3, 2), id=f"{number}")) for number in (4, 5, 6)]

    parts.admit()

    assert states(*sequences) == [State.RUNNING, State.RUNNING, State.WAITING]


def test_one_that_does_not_fit_is_not_overtaken() -> None:
    parts = Parts(Shape(num_blocks=4, block_size=2))
    parts.offer(a_request((2, 3, 4, 2), id="first"))
    large = parts.offer(a_request((6,) * 7, id="large"))
    small = parts.offer(a_request((7,), id="small"))

    parts.admit()

    assert states(large, small) == [State.WAITING, State.WAITING]


def test_the_blocks_of_ones_own_hit_are_not_counted_as_free() -> None:
    parts = Parts(Shape(num_blocks=4, block_size=2))
    parts.run(a_request((2, 3, 4, 5), id="gone", max_tokens=1))
    parts.step()
    parts.run(a_request((6, 7, 6, 7), id="running"))
    assert parts.tables.pool.num_available == 4
    parts.apply(parts.issue())
    assert parts.tables.pool.num_available == 2

    waiting = parts.run(a_request((2, 3, 4, 5, 2, 3), id="waiting"))

    assert parts.tables.match(waiting).num_positions == 4
    assert waiting.state is State.WAITING


def test_twins_wait_for_the_leaders_blocks_and_let_others_pass() -> None:
    parts = Parts()
    leader, twin = (parts.offer(a_request(id=name)) for name in ("leader", "twin"))
    other = parts.offer(a_request((6, 6, 6), id="other"))

    parts.admit()
    assert states(leader, twin, other) == [State.RUNNING, State.WAITING, State.RUNNING]
    parts.apply(parts.issue())
    parts.admit()

    assert twin.state is State.RUNNING
    assert twin.cached_tokens == 4
    assert blocks_of(twin) == blocks_of(leader)[:2]


def test_the_choices_of_one_request_share_its_prompt() -> None:
    parts = Parts()
    first, second = parts.admission.offer(a_request(num_choices=2), now=0.0)

    parts.step()
    parts.admit()

    assert blocks_of(second) == blocks_of(first)[:2]
    assert (first.cached_tokens, second.cached_tokens) == (0, 4)


def test_a_waiting_sequence_takes_a_paused_ones_cache() -> None:
    parts = Parts(Shape(num_blocks=4, block_size=2))
    paused = parts.run(a_request((2, 3, 4, 5), id="paused"))
    parts.apply(parts.issue())
    paused.stalled = True
    waiting = parts.offer(a_request((6, 7, 6, 7, 6), id="waiting"))

    parts.admit()

    assert states(paused, waiting) == [State.PAUSED, State.RUNNING]
    assert not paused.held.anything
    assert parts.stats.preemptions == 1


def test_a_prefix_hit_is_counted_once_for_a_sequence() -> None:
    parts = Parts()
    parts.run(a_request(id="first"))
    parts.step()
    second = parts.run(a_request(id="second"))
    parts.preempt(second)

    parts.admit()

    assert (parts.stats.prefix_queries, parts.stats.prefix_hits) == (10, 4)
    assert second.cached_tokens == 4


# -- pauses and aborts ------------------------------------------------------------------------


def test_a_stalled_sequence_pauses_and_goes_on_when_it_is_read() -> None:
    parts = Parts()
    sequence = parts.run(a_request())
    parts.step()
    sequence.stalled = True
    parts.admit()
    assert states(sequence) == [State.PAUSED]
    assert blocks_of(sequence)

    sequence.stalled = False
    parts.admit()

    assert states(sequence) == [State.RUNNING]


def test_a_stalled_sequence_that_waits_is_not_started() -> None:
    parts = Parts()
    sequence = parts.offer(a_request())
    sequence.stalled = True

    parts.admit()
    assert states(sequence) == [State.PAUSED]
    sequence.stalled = False
    parts.admit()

    assert states(sequence) == [State.RUNNING]


def test_a_sequence_that_resumes_waits_for_a_seat() -> None:
    parts = Parts(Shape(max_sequences=1))
    paused = parts.run(a_request(id="paused"))
    parts.step()
    paused.stalled = True
    other = parts.offer(a_request((6, 6, 6), id="other"))
    parts.admit()
    paused.stalled = False

    parts.admit()
    assert states(paused, other) == [State.PAUSED, State.RUNNING]
    parts.tables.release(other)
    parts.roster.move(other, State.FINISHED, Event.ENDED)
    parts.admit()

    assert paused.state is State.RUNNING


def test_aborts_are_seen_in_every_state() -> None:
    parts = Parts(Shape(max_sequences=2))
    running = parts.run(a_request((2, 3), id="running"))
    paused = parts.run(a_request((3, 4), id="paused"))
    parts.roster.move(paused, State.PAUSED, Event.PAUSED)
    waiting = parts.offer(a_request((4, 5), id="waiting"))
    parked = parts.offer(a_request((5, 6), id="parked"))
    parked.parked = True
    parts.admission.settle_parks()
    for sequence in (running, paused, waiting, parked):
        sequence.aborted = True

    assert parts.admission.aborted() == [running, paused, waiting, parked]


def test_a_parked_sequence_has_no_cache_and_is_queued_again_when_its_client_is_back() -> None:
    parts = Parts()
    sequence = parts.run(a_request())
    parts.step()
    accepted = list(sequence.tokens)
    sequence.parked = True

    parts.admit()
    assert states(sequence) == [State.PARKED]
    assert not sequence.held.anything
    assert parts.stats.rollbacks["parked"] == 1
    assert parts.stats.preemptions == 0
    sequence.parked = False
    parts.admit()

    assert states(sequence) == [State.RUNNING]
    assert sequence.tokens == accepted


@pytest.mark.parametrize("state", [State.WAITING, State.PAUSED])
def test_what_does_not_run_is_parked_too_and_has_nothing_to_give_back(state: State) -> None:
    parts = Parts()
    sequence = parts.offer(a_request())
    sequence.stalled = state is State.PAUSED
    parts.admission.settle_pauses()
    assert sequence.state is state
    sequence.parked = True

    parts.admit()

    assert states(sequence) == [State.PARKED]
    assert parts.stats.rollbacks["parked"] == 0


def test_a_parked_sequence_whose_stream_is_full_pauses_until_it_is_read() -> None:
    parts = Parts()
    sequence = parts.run(a_request())
    sequence.parked = sequence.stalled = True
    parts.admit()
    assert states(sequence) == [State.PARKED]

    sequence.parked = False
    parts.admit()
    assert states(sequence) == [State.PAUSED]
    sequence.stalled = False
    parts.admit()

    assert states(sequence) == [State.RUNNING]
