import pytest

import engine.view
from engine.request import Delta
from engine.stats import BlockCounts, Snapshot, StepRow, TableView
from engine.step import Advance
from engine.view import MAX_OTHERS, Issued, issued_blocks, look_of, snapshot_of, step_record
from tests.digest import LAYOUTS
from tests.laws.shape import Shape
from tests.parts import Parts, a_request


def snapshot(parts: Parts) -> Snapshot:
    return snapshot_of(parts.roster, parts.tables, parts.stats, parts.pace, now=parts.now)


def test_an_engine_without_requests_shows_zeros() -> None:
    shown = snapshot(Parts(Shape(num_blocks=5)))

    assert shown.blocks == BlockCounts(free=5, allocated=0, shared=0, cached=0)
    assert (shown.running, shown.waiting, shown.paused, shown.steps, shown.tail_positions) == (0, 0, 0, 0, 0)
    assert shown.sequences == ()


def test_what_is_shown_is_what_the_ledgers_say() -> None:
    parts = Parts()
    first = parts.run(a_request(id="first"))
    parts.step()
    second = parts.run(a_request(id="second"))
    parts.issue()
    parts.offer(a_request((6, 6, 6), id="third"))
    parts.now = 3.0

    shown = snapshot(parts)

    assert {view.id: view.marks for view in shown.sequences} == {
        sequence.id: sequence.ledger.marks for sequence in parts.roster
    }
    assert (shown.running, shown.waiting, shown.paused) == (2, 1, 0)
    assert shown.positions == parts.stats.positions
    assert shown.blocks == BlockCounts(free=4, allocated=2, shared=2, cached=0)
    views = {view.id: view for view in shown.sequences}
    assert views[first.id].tables == (TableView(0, 0, ((0, 2), (1, 2), (2, 1))),)
    assert views[second.id].cached_tokens == 4
    assert views[second.id].age_seconds == 3.0


def test_the_gauges_are_the_states_of_the_sequences() -> None:
    parts = Parts(Shape(max_sequences=2))
    for number in (4, 5, 6, 7):
        parts.offer(a_request((number, 2), id=f"{number}"))
    parts.step()
    parts.roster.running[0].stalled = True
    parts.admit()

    shown = snapshot(parts)

    states = [view.state for view in shown.sequences]
    gauges = {"running": shown.running, "waiting": shown.waiting, "paused": shown.paused}
    assert gauges == {state: states.count(state) for state in gauges} == {"running": 2, "waiting": 1, "paused": 1}


def test_the_tail_is_what_blocks_hold_beyond_what_is_computed() -> None:
    parts = Parts(Shape(block_size=4))
    parts.run(a_request((2, 3, 4, 5, 2)))

    plan = parts.issue()
    tails = [snapshot(parts).tail_positions]
    parts.apply(plan)
    tails.append(snapshot(parts).tail_positions)

    assert tails == [8, 3]


def test_a_snapshot_stands_still() -> None:
    parts = Parts()
    parts.run(a_request())
    before = snapshot(parts)

    parts.step()

    assert before.positions.computed == 0
    assert before.sequences[0].marks.accepted == 5
    assert before.step_seconds == {}


def test_a_step_record_tells_the_marks_the_chunk_the_tokens_and_the_blocks() -> None:
    parts = Parts()
    sequence = parts.run(a_request((2, 3, 4)))
    plan = parts.issue()
    blocks = issued_blocks(plan, parts.roster, parts.tables)
    outcome = parts.apply(plan)

    record = step_record(Issued(plan, 2.0, 0.5, blocks), outcome.advances)

    assert (record.step, record.at, record.seconds) == (plan.number, 2.0, 0.5)
    assert record.rows == (
        StepRow(
            sequence=sequence.id,
            planned=3,
            computed=3,
            accepted=4,
            published=outcome.advances[0].publish_upto,
            chunk=(0, 3),
            tokens=tuple(sequence.tokens[3:]),
            tables=(TableView(0, 0, ((0, 1), (1, 1))),),
        ),
    )


def test_a_step_record_has_no_row_for_what_was_dropped_and_takes_the_steps_own_advance() -> None:
    parts = Parts()
    parts.run(a_request((2, 3), id="first"))
    parts.run(a_request((4, 5), id="second"))
    plan = parts.issue()
    blocks = issued_blocks(plan, parts.roster, parts.tables)
    first = parts.apply(plan).advances[0]
    later = Advance(first.sequence, first.marks, 99, Delta(0))

    record = step_record(Issued(plan, 2.0, 0.5, blocks), (first, later))

    assert [(row.sequence, row.published) for row in record.rows] == [("first/0", first.publish_upto)]


def test_groups_and_slots_are_shown_with_what_windows_gave_back_and_what_a_step_leaves() -> None:
    parts = Parts(Shape(layout=LAYOUTS["all"], num_blocks=8))  # a full group, a window of four, states
    sequence = parts.run(a_request((2, 3, 4, 5, 6, 7, 8), max_tokens=2))
    plan = parts.issue()
    blocks = issued_blocks(plan, parts.roster, parts.tables)
    outcome = parts.apply(plan)

    (row,) = step_record(Issued(plan, 2.0, 0.5, blocks), outcome.advances).rows
    shown = snapshot(parts)
    (view,) = shown.sequences

    assert [(table.group, table.first, len(table.blocks)) for table in row.tables] == [(0, 0, 4), (1, 0, 4)]
    assert (row.slot, [position for position, _ in row.checkpoints]) == (sequence.held.slot, [6])
    assert [(table.group, table.first, len(table.blocks)) for table in view.tables] == [(0, 0, 4), (1, 2, 2)]
    assert view.slot == sequence.held.slot
    units = sum(parts.shape.layout.widths)
    assert [(group.allocated, group.cached) for group in shown.groups] == [(4, 0), (2 * (units - 1), 2 * (units - 1))]
    assert (shown.slots.allocated, shown.slots.cached) == (1, 1)
    assert shown.blocks.allocated == sum(group.allocated for group in shown.groups)


def test_a_look_lists_the_first_of_each_state_in_the_order_in_which_they_go() -> None:
    parts = Parts(Shape(max_sequences=2, max_waiting=200))
    parts.run(a_request((2, 3), id="runs"))
    parts.run(a_request((3, 4), id="parks")).parked = True
    for number in range(MAX_OTHERS + 5):
        parts.offer(a_request((4, 5), id=f"{number}"))
    parts.offer(a_request((4, 5), id="urgent", priority=-1))
    parts.admission.settle_parks()

    look = look_of(parts.roster, parts.tables, parts.stats, parts.pace, now=parts.now)

    listed = [view.request_id for view in look.snapshot.sequences]
    assert listed == ["runs", "urgent", *(str(number) for number in range(MAX_OTHERS - 1)), "parks"]
    assert look.snapshot.waiting == MAX_OTHERS + 6
    assert list(look.tables) == [view.id for view in look.snapshot.sequences], "what is not listed is not known later"


def test_a_look_lists_so_many_that_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine.view, "MAX_RUNNING", 1)
    parts = Parts()
    for id, prompt in (("first", (2, 3)), ("second", (3, 4))):
        parts.run(a_request(prompt, id=id))

    look = look_of(parts.roster, parts.tables, parts.stats, parts.pace, now=parts.now)

    assert [view.request_id for view in look.snapshot.sequences] == ["first"]
    assert look.snapshot.running == 2
