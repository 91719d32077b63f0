"""Timelines and places as JSON, with text and without."""

from dataclasses import replace
from typing import get_args

from typing_extensions import get_type_hints

from engine.course import Event, Moment
from engine.errors import SlowReader
from engine.look import Hold, UnitView
from engine.stats import StepRow
from server.render.timeline import slot_body, timeline_body, unit_body
from server.timelines import TimedRow, Timeline
from server.wire.sight import EventBody

FIRST = StepRow("one/0", 5, 5, 6, 5, (2, 5), (97,), ())
SECOND = StepRow("one/0", 8, 7, 8, 7, (5, 8), (98, 99), (), drafts=(98, 100), source="prediction", num_kept=1)


def timeline(*rows: StepRow, complete: bool = True) -> Timeline:
    return Timeline("one/0", complete, [TimedRow(step, 0.1 * step, 0.1, row) for step, row in enumerate(rows, 1)])


def test_a_timeline_tells_each_step_and_how_it_began() -> None:
    body = timeline_body(timeline(FIRST, SECOND), after=0, text_of=None)

    steps = body.pop("steps")  # type: ignore[misc]  # what is left is compared whole
    assert body == {
        "sequence": "one/0", "complete": True, "ended": None, "prompt_tokens": 5, "cached_tokens": 2, "events": []
    }  # fmt: skip
    assert steps[1] == {
        "step": 2, "time": 0.2, "seconds": 0.1, "chunk": [5, 8], "planned": 8, "computed": 7, "accepted": 8,
        "published": 7, "tokens": 2, "drafted": 2, "kept": 1, "source": "prediction",
    }  # fmt: skip


def test_a_timeline_tells_what_befell_its_sequence_and_how_it_ended() -> None:
    told = timeline(FIRST)
    for moment in (
        Moment(Event.QUEUED, 0.0123456789),
        Moment(Event.ADMITTED, 0.1, cached=2),
        Moment(Event.PREEMPTED, 0.2, reason="room", lost=5, freed=1),
        Moment(Event.ENDED, 0.3, reason="error", error=SlowReader(limit_seconds=30.0)),
    ):
        told.add(moment)

    body = timeline_body(told, after=9, text_of=None)

    assert body["events"] == [
        {"number": 1, "time": 0.012346, "event": "queued"},
        {"number": 2, "time": 0.1, "event": "admitted", "cached_tokens": 2},
        {"number": 3, "time": 0.2, "event": "preempted", "reason": "room", "lost": 5, "freed": 1},
        {"number": 4, "time": 0.3, "event": "ended", "reason": "error", "error": "slow_reader"},
    ]
    assert (body["ended"], body["steps"]) == ("error", [])


def test_who_waits_has_no_step_yet_and_what_befell_it() -> None:
    told = timeline()
    told.add(Moment(Event.QUEUED, 1.0))

    body = timeline_body(told, after=0, text_of=None)

    assert (body["steps"], body["prompt_tokens"], body["complete"]) == ([], None, True)
    assert [each["event"] for each in body["events"]] == ["queued"]


def test_events_keep_their_numbers_where_the_first_are_gone() -> None:
    told = timeline()
    for number in range(70):
        told.add(Moment(Event.PAUSED, float(number)))

    events = timeline_body(told, after=0, text_of=None)["events"]

    assert (events[0]["number"], events[-1]["number"], len(events)) == (7, 70, 64)


def test_every_event_of_the_engine_is_described() -> None:
    described = get_args(get_type_hints(EventBody)["event"])

    assert set(described) == {event.value for event in Event}


def test_without_its_beginning_a_timeline_does_not_know_the_prompt() -> None:
    body = timeline_body(timeline(SECOND, complete=False), after=0, text_of=None)

    assert (body["prompt_tokens"], body["cached_tokens"]) == (None, None)


def test_a_prompt_in_several_chunks_counts_its_tokens_before_the_first_output() -> None:
    chunk = FIRST._replace(planned=3, computed=3, accepted=5, chunk=(0, 3), tokens=())

    body = timeline_body(timeline(chunk, FIRST), after=0, text_of=None)

    assert (body["prompt_tokens"], body["cached_tokens"], body["ended"]) == (5, 0, None)


def test_known_steps_are_left_out() -> None:
    body = timeline_body(timeline(FIRST, SECOND), after=1, text_of=None)

    assert [step["step"] for step in body["steps"]] == [2]
    assert body["prompt_tokens"] == 5


def test_tokens_are_shown_where_text_may_be() -> None:
    [_, step] = timeline_body(timeline(FIRST, SECOND), after=0, text_of=chr)["steps"]

    assert step["chosen"] == {"tokens": [98, 99], "text": "bc"}
    assert step["drafts"] == {"tokens": [98, 100], "text": "bd"}


def test_a_unit_tells_its_block_and_its_text_where_that_may_be() -> None:
    view = UnitView(4, (4, 5), Hold.SHARED, 1, (16, 32), ("one/0", "two/0"), (97, 98))

    shown = unit_body(5, view, text_of=chr)

    assert shown == {
        "unit": 5, "block": 4, "units": [4, 5], "state": "shared", "group": 1, "positions": [16, 32],
        "owners": ["one/0", "two/0"], "tokens": [97, 98], "text": "ab",
    }  # fmt: skip
    assert not {"tokens", "text"} & unit_body(5, view, text_of=None).keys()
    assert unit_body(5, None, text_of=chr)["state"] == "free"


def test_a_slot_tells_behind_which_positions_its_state_stands() -> None:
    view = UnitView(4, (4,), Hold.CACHED, None, (0, 32), (), ())

    assert slot_body(4, view) == {"slot": 4, "state": "cached", "position": 32, "owners": []}
    assert slot_body(4, replace(view, positions=None, hold=Hold.ALLOCATED, owners=("one/0",)))["position"] is None
    assert slot_body(4, None)["state"] == "free"
