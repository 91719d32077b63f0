import pytest

from engine.course import MAX_MOMENTS, Moment
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
        roster.move(sequence, State.RUNNING)
    roster.move(first, State.WAITING)
    roster.move(first, State.RUNNING)

    assert roster.running == [urgent, first, second]
    assert roster.waiting == roster.paused == []
    roster.check()


def test_a_finished_sequence_is_off_the_roster() -> None:
    sequence = a_sequence(1)
    roster = roster_of(sequence)

    roster.move(sequence, State.FINISHED)

    assert sequence.state is State.FINISHED
    assert roster.get(sequence.id) is None
    assert len(roster) == 0
    roster.check()


def test_an_unfinished_sequence_is_found_by_its_id() -> None:
    sequence = a_sequence(1)
    roster = roster_of(sequence)
    roster.move(sequence, State.PAUSED)

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


def test_changes_of_state_are_remembered_with_their_times_up_to_a_bound() -> None:
    now = iter(range(10**6))
    roster = Roster(clock=lambda: float(next(now)))
    sequence = a_sequence(1)
    roster.add(sequence)

    for _ in range(MAX_MOMENTS):
        roster.move(sequence, State.RUNNING)
        roster.move(sequence, State.WAITING)
    roster.move(sequence, State.FINISHED)

    assert sequence.moments[:2] == [Moment("running", 0.0), Moment("waiting", 1.0)]
    assert len(sequence.course.moments) == MAX_MOMENTS
