from typing import Any

import pytest

from server.top.happened import course_told, happening_told, step_told
from tests.server.top.courses import course, event, step


def told_of_steps(*steps: dict[str, Any], **fields: Any) -> list[str]:
    whole = course(steps=list(steps), **fields)
    return [step_told(one, before, whole) for one, before in zip(whole.steps, (None, *whole.steps), strict=False)]


def test_the_first_steps_compute_the_prompt_behind_what_the_cache_had() -> None:
    steps = step(1, chunk=[16, 18], computed=18), step(2, chunk=[18, 20], computed=20), step(3, chunk=[20, 21])

    assert told_of_steps(*steps) == [
        "starts behind 16 positions of the cache, part of the prompt",
        "the prompt's end",
        "",
    ]


def test_nothing_is_said_of_a_beginning_that_was_not_seen() -> None:
    assert told_of_steps(step(30), complete=False, prompt_tokens=None, cached_tokens=None) == [""]


def test_a_step_that_begins_again_had_lost_the_cache() -> None:
    assert told_of_steps(step(30), step(31, chunk=[0, 31])) == [
        "starts behind 29 positions of the cache",
        "had lost its cache, computes again, the prompt's end",
    ]


def test_drafts_that_fell_are_counted_and_shown_where_text_may_be() -> None:
    chosen, drafts = {"tokens": [1], "text": "Hi"}, {"tokens": [1, 2], "text": "Ho ho"}
    steps = (
        step(30, drafted=2, kept=1),
        step(31, drafted=2, kept=0, chosen=chosen, drafts=drafts),
        step(32, drafted=2, kept=2, chosen=chosen, drafts=drafts),
    )

    assert told_of_steps(*steps, complete=False) == [
        "1 guess fell",
        '"Hi" 2 guesses fell guessed "Ho ho"',
        '"Hi"',
    ]


@pytest.mark.parametrize(
    ("name", "fields", "told"),
    [
        ("queued", {}, "came into the queue"),
        ("admitted", {"cached_tokens": 0}, "admitted, nothing found in the cache"),
        ("admitted", {"cached_tokens": 1}, "admitted, 1 position found in the cache"),
        (
            "preempted",
            {"reason": "room", "lost": 1033, "freed": 1},
            "lost its cache of 1,033 positions, 1 block freed: others needed the place",
        ),
        (
            "preempted",
            {"reason": "new", "lost": 1, "freed": 2},
            "lost its cache of 1 position, 2 blocks freed: new",
        ),
        ("paused", {}, "paused: its client does not read fast enough"),
        ("unpaused", {}, "its client reads again: waits for a cache"),
        ("parked", {}, "parked: its client has left"),
        ("unparked", {}, "its client is back: waits"),
        ("resumed", {}, "goes on"),
        ("resumed", {"cached_tokens": 32}, "goes on, 32 positions found in the cache"),
        ("ended", {"reason": "stop"}, "ended: stop"),
        ("ended", {"reason": "error", "error": "step_failed"}, "ended: error (step_failed)"),
        ("unheard", {}, "unheard"),
    ],
)
def test_what_befalls_a_sequence_is_told_in_words(name: str, fields: dict[str, Any], told: str) -> None:
    assert happening_told(course(events=[event(1, name, 0.0, **fields)]).happenings[0]) == told


@pytest.mark.parametrize(
    ("events", "state"),
    [
        ([], "running"),
        (["queued"], "waiting"),
        (["queued", "admitted"], "running"),
        (["preempted"], "waiting"),
        (["paused"], "paused"),
        (["parked"], "parked"),
        (["unparked"], "waiting"),
        (["resumed"], "running"),
        (["ended"], "ended: stop"),
    ],
)
def test_a_course_ends_with_what_the_sequence_does_now(events: list[str], state: str) -> None:
    told = course(events=[event(number, name, 0.0, reason="stop") for number, name in enumerate(events, 1)])

    assert course_told(told).rpartition("; ")[2] == state


def test_a_course_is_told_in_a_line() -> None:
    steps = [step(1, drafted=4, kept=3), step(2, drafted=1, kept=0)]

    assert course_told(course(steps=steps)) == (
        "2 steps; prompt 20 tokens, 16 found in the cache; 3 of 5 guessed tokens stood; running"
    )
    assert course_told(course(steps=steps[:1], complete=False, prompt_tokens=None)).startswith(
        "1 step; those before anybody looked are missing; 3 of 4"
    )
