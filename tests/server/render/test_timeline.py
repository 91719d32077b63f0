"""Timelines and places as JSON, with text and without."""

from dataclasses import replace

from engine.stats import Hold, StepRow, UnitView
from server.render.timeline import slot_body, timeline_body, unit_body
from server.timelines import TimedRow, Timeline

FIRST = StepRow("one/0", 5, 5, 6, 5, (2, 5), (97,), ())
SECOND = StepRow(
    "one/0", 8, 7, 8, 7, (5, 8), (98, 99), (), drafts=(98, 100), source="prediction", num_kept=1, end="stop"
)


def timeline(*rows: StepRow, complete: bool = True) -> Timeline:
    return Timeline("one/0", complete, [TimedRow(step, 0.1 * step, 0.1, row) for step, row in enumerate(rows, 1)])


def test_a_timeline_tells_each_step_how_it_began_and_how_it_ended() -> None:
    body = timeline_body(timeline(FIRST, SECOND), after=0, text_of=None)

    steps = body.pop("steps")  # type: ignore[misc]  # what is left is compared whole
    assert body == {"sequence": "one/0", "complete": True, "ended": "stop", "prompt_tokens": 5, "cached_tokens": 2}
    assert steps[1] == {
        "step": 2, "time": 0.2, "seconds": 0.1, "chunk": [5, 8], "planned": 8, "computed": 7, "accepted": 8,
        "published": 7, "tokens": 2, "drafted": 2, "kept": 1, "source": "prediction",
    }  # fmt: skip


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
