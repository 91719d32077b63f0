from typing import Any

import pytest

from server.top import course as module
from server.top.course import Happening, Step, read_course
from server.top.values import NoSight
from tests.server.top.courses import NAME, body, course, event, step


def test_a_sequence_s_steps_are_read_into_values() -> None:
    text = {"tokens": [5], "text": "a\x1b[2Jb\n"}

    told = course(
        steps=[step(21, drafted=3, kept=1, source="lookup", chosen=text, drafts=text)],
        events=[event(1, "preempted", 0.5, reason="room", lost=33, freed=2), event(2, "ended", 9, error="x")],
        ended="error",
    )

    assert told.steps == (Step(21, 2.1, 20, 21, 21, 21, 22, 22, 1, 3, 1, "lookup", "a[2Jb\\n", "a[2Jb\\n"),)
    assert told.happenings == (
        Happening(1, 0.5, "preempted", reason="room", lost=33, freed=2),
        Happening(2, 9.0, "ended", error="x"),
    )
    assert (told.ended, told.complete, told.prompt_tokens, told.cached_tokens) == ("error", True, 20, 16)
    assert told.last == 21


def test_nothing_is_known_of_a_sequence_that_has_not_run() -> None:
    told = course(prompt_tokens=None, cached_tokens=None, events=[event(1, "queued", 1.0)])

    assert (told.last, told.prompt_tokens) == (0, None)


def test_a_later_answer_adds_what_is_new_and_nothing_twice() -> None:
    first = course(steps=[step(1), step(2)], events=[event(1, "queued", 0.0), event(2, "admitted", 0.05)])

    later = first.joined(
        course(steps=[step(2), step(3)], events=[event(2, "admitted", 0.05), event(3, "ended", 0.4)], ended="stop")
    )

    assert [each.number for each in later.steps] == [1, 2, 3]
    assert [each.number for each in later.happenings] == [1, 2, 3]
    assert later.ended == "stop"


def test_what_the_first_step_told_stays_known_though_the_server_has_dropped_it() -> None:
    dropped = course(complete=False, prompt_tokens=None, cached_tokens=None, steps=[step(3)])

    assert course(steps=[step(1)]).joined(dropped).prompt_tokens == 20
    assert course(steps=[step(1)]).joined(dropped).complete
    assert not course(complete=True).joined(dropped).complete


def test_only_the_last_steps_are_kept_and_then_the_first_is_not_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_STEPS", 3)

    told = course(steps=[step(1), step(2)]).joined(course(steps=[step(3), step(4)]))

    assert [each.number for each in told.steps] == [2, 3, 4]
    assert not told.complete


def test_what_befell_a_sequence_stands_between_its_steps() -> None:
    told = course(
        steps=[step(2), step(5), step(6)],
        events=[event(1, "queued", 0.0), event(2, "admitted", 0.1), event(3, "paused", 0.5), event(4, "ended", 7.0)],
    )

    assert [one.number if isinstance(one, Step) else one.event for one in told.line()] == [
        "queued",
        "admitted",
        2,
        5,
        "paused",
        6,
        "ended",
    ]


@pytest.mark.parametrize(
    "wrong",
    [
        {"sequences": []},
        {"sequences": [{}]},
        {},
        body(steps=[{}]),
        body(steps=[step(1, chunk=[1])]),
        body(steps=[step(1, time=float("inf"))]),
        body(events=[3]),
        {"sequences": body()["sequences"] * 2},
    ],
)
def test_what_tells_no_steps_is_told(wrong: dict[str, Any]) -> None:
    with pytest.raises(NoSight, match="does not tell the steps of this sequence"):
        read_course(wrong, NAME)
