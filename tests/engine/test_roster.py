import pytest

from engine.course import MAX_MOMENTS, Event, Loss, Moment
from engine.ledger import Positions
from engine.roster import Roster
from engine.sequence import Sequence, State
from tests.parts import a_request


def a_sequence(number: int, *, priority: int = 0) -> Sequence:
    request = a_request(id=f"request-{number}", priority=priority)
    return Sequence(request, 0, number=number, max_length=9, positions=Positions(), arrived_at=0.0)


def roster_of(*sequences: Sequence) -> Roster:
    roster = Roster()
    for sequence in sequences:
        roster.add(sequence)
    return roster


def test_each_state_is_kept_in_order_whatever_the_moves() -> None:
    first, second, urgent = a_sequence(1), a_sequence(2), a_sequence(3, priority=-1)
    roster = roster_of(first, second, urgent)
    for sequence in (second, first, urgent):
        roster.move(sequence, State.RUNNING, Event.ADMITTED)
    roster.preempt(first, Loss.ROOM, lost=0, freed=0)
    roster.move(first, State.RUNNING, Event.RESUMED)

    assert roster.running == [urgent, first, second]
    assert roster.waiting == roster.paused == []
    roster.check()


def test_a_finished_sequence_is_off_the_roster() -> None:
    sequence = a_sequence(1)
    roster = roster_of(sequence)

    roster.move(sequence, State.FINISHED, Event.ENDED)

    assert sequence.state is State.FINISHED
    assert roster.get(sequence.id) is None
    assert len(roster) == 0
    roster.check()


def test_an_unfinished_sequence_is_found_by_its_id() -> None:
    sequence = a_sequence(1)
    roster = roster_of(sequence)
    roster.move(sequence, State.PAUSED, Event.PAUSED)

    assert roster.get("request-1/0") is sequence
    assert list(roster) == roster.paused == [sequence]


def test_two_sequences_of_one_id_are_never_there_together() -> None:
    roster = roster_of(a_sequence(1))

    with pytest.raises(AssertionError, match="here already"):
        roster.add(a_sequence(1))


def test_a_check_finds_a_sequence_in_the_list_of_another_state() -> None:
    sequence = a_sequence(1)
    roster = roster_of(sequence)
    sequence.state = State.RUNNING

    with pytest.raises(AssertionError, match="is elsewhere"):
        roster.check()


def test_what_befalls_a_sequence_is_remembered_with_its_time_up_to_a_bound_and_told_without_one() -> None:
    now, told = iter(range(10**6)), list[Moment]()
    roster = Roster(clock=lambda: float(next(now)), hear=lambda _, moment: told.append(moment))
    sequence = a_sequence(1)
    roster.add(sequence)

    for _ in range(MAX_MOMENTS):
        roster.move(sequence, State.RUNNING, Event.RESUMED, cached=4)
        roster.preempt(sequence, Loss.ROOM, lost=8, freed=2)
    roster.move(sequence, State.FINISHED, Event.ENDED, reason="stop")

    assert sequence.moments[:3] == [
        Moment(Event.QUEUED, 0.0),
        Moment(Event.RESUMED, 0.0, cached=4),
        Moment(Event.PREEMPTED, 1.0, reason="room", lost=8, freed=2),
    ]
    assert len(sequence.course.moments) == MAX_MOMENTS
    assert told[:MAX_MOMENTS] == sequence.moments
    assert told[-1] == Moment(Event.ENDED, 2.0 * MAX_MOMENTS, reason="stop")


@pytest.mark.parametrize(
    ("state", "then"),
    [(State.RUNNING, State.WAITING), (State.PAUSED, State.PAUSED), (State.WAITING, State.WAITING)],
)
def test_who_ran_waits_without_a_cache_and_who_did_not_stays(state: State, then: State) -> None:
    sequence = a_sequence(1)
    roster = roster_of(sequence)
    roster.move(sequence, state, Event.RESUMED)

    roster.preempt(sequence, Loss.PARKED, lost=0, freed=0)

    assert sequence.state is then
    roster.check()
