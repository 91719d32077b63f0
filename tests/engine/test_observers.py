from engine.course import Event, Moment
from engine.observers import Observers
from engine.roster import Roster
from engine.sequence import State
from engine.stats import StepRecord
from engine.view import Issued
from tests.parts import Parts, a_request


def test_who_wants_no_tables_makes_none() -> None:
    parts, observers, records = Parts(), Observers(), list[StepRecord]()
    parts.run(a_request())
    plan = parts.issue()

    none = observers.blocks_of(plan, parts.roster, parts.tables)
    observers.add(records.append, with_tables=False)
    still_none = observers.blocks_of(plan, parts.roster, parts.tables)
    outcome = parts.apply(plan)
    observers.tell(Issued(plan, 1.0, 0.5, {}), outcome.advances)

    assert none == still_none == {}
    assert [row.tables for record in records for row in record.rows] == [()]


def test_who_wants_tables_has_them_made_for_all() -> None:
    parts, observers = Parts(), Observers()
    parts.run(a_request())
    plan = parts.issue()
    observers.add(list[StepRecord]().append, with_tables=True)

    assert observers.blocks_of(plan, parts.roster, parts.tables).keys() == {"request/0"}


def test_who_has_enough_is_told_no_more() -> None:
    parts, observers, first, second = Parts(), Observers(), list[StepRecord](), list[StepRecord]()
    parts.run(a_request())
    stop = observers.add(first.append, with_tables=False)
    observers.add(second.append, with_tables=False)

    for _ in range(2):
        plan = parts.issue()
        observers.tell(Issued(plan, 1.0, 0.5, {}), parts.apply(plan).advances)
        if first and second and len(second) == 1:
            stop()

    assert (len(first), len(second)) == (1, 2)


def test_who_wants_to_hear_is_told_what_befalls_a_sequence_and_the_others_are_not() -> None:
    parts, observers, heard = Parts(), Observers(), list[tuple[str, Moment]]()
    sequence = parts.offer(a_request())
    roster = Roster(clock=lambda: 1.0, hear=observers.hear)
    observers.add(list[StepRecord]().append, with_tables=False)
    stop = observers.add(
        list[StepRecord]().append, with_tables=False, hear=lambda id, moment: heard.append((id, moment))
    )

    roster.add(sequence)
    roster.move(sequence, State.RUNNING, Event.ADMITTED, cached=0)
    stop()
    roster.move(sequence, State.PAUSED, Event.PAUSED)

    assert heard == [
        (sequence.id, Moment(Event.QUEUED, sequence.arrived_at)),
        (sequence.id, Moment(Event.ADMITTED, 1.0, cached=0)),
    ]
