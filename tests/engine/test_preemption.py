"""A cache that is taken: what is lost, what is freed, and how it is counted."""

import pytest

from engine.course import Event, Loss
from engine.preemption import preempt
from engine.sequence import State
from tests.parts import Parts, a_request


def test_what_others_share_is_lost_and_not_freed() -> None:
    parts = Parts()
    parts.run(a_request((2, 3, 4, 5, 2), id="first"))
    parts.step()
    second = parts.run(a_request((2, 3, 4, 5, 2), id="second"))
    parts.step()
    before = parts.tables.pool.num_available

    parts.preempt(second)

    moment = second.moments[-1]
    assert (moment.event, moment.reason, moment.lost) == (Event.PREEMPTED, "room", 5)
    assert moment.freed == parts.tables.pool.num_available - before == 1
    assert (second.state, second.ledger.computed, second.epoch) == (State.WAITING, 0, 1)


@pytest.mark.parametrize(
    ("why", "rollback", "num_preemptions"),
    [
        (Loss.ROOM, "preempted", 1),
        (Loss.PARKED, "parked", 0),
        (Loss.STEP_FAILED, "step_failed", 0),
        (Loss.STALE, "stale", 0),
    ],
)
def test_each_reason_is_counted_and_only_what_others_take_is_a_preemption(
    why: Loss, rollback: str, num_preemptions: int
) -> None:
    parts = Parts()
    sequence = parts.run(a_request())

    preempt(sequence, why, roster=parts.roster, tables=parts.tables, stats=parts.stats)

    assert parts.stats.rollbacks == {rollback: 1}
    assert parts.stats.preemptions == num_preemptions
    assert sequence.moments[-1].reason == why.value
