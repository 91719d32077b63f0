"""Happened: what a step or an event did to a sequence, in words."""

from server.top.course import Course, Happening, Step
from server.top.words import count_told

_LOSSES = {
    "room": "others needed the place",
    "parked": "its client had left",
    "step_failed": "a step failed, and is run again",
    "stale": "a step's result did not fit",
}
_TOLD = {
    "queued": "came into the queue",
    "paused": "paused: its client does not read fast enough",
    "unpaused": "its client reads again: waits for a cache",
    "parked": "parked: its client has left",
    "unparked": "its client is back: waits",
}


def step_told(step: Step, before: Step | None, course: Course) -> str:
    """What happened at a step beside what its numbers say; `before` is the step before it, if one is known."""
    told, prompt_tokens = [], course.prompt_tokens
    if before is None and course.complete and step.start > 0:
        told.append(f"starts behind {_counted(step.start, 'position')} of the cache")
    if before is not None and step.start < before.computed:
        told.append("had lost its cache, computes again")
    if prompt_tokens is not None and step.start < prompt_tokens:
        told.append("part of the prompt" if step.stop < prompt_tokens else "the prompt's end")
    if fell := step.drafted - step.kept:
        told.append(f"{_counted(fell, 'guess', 'guesses')} fell")
    said = "" if step.chosen is None else f'"{step.chosen}"'
    guessed = f' guessed "{step.drafts}"' if fell and step.drafts is not None else ""
    return " ".join(part for part in (said, ", ".join(told)) if part) + guessed


def happening_told(one: Happening) -> str:
    """What befell a sequence."""
    found = f"{_counted(one.cached, 'position')} found in the cache" if one.cached else "nothing found in the cache"
    match one.event:
        case "admitted":
            return f"admitted, {found}"
        case "preempted":
            why = _LOSSES.get(one.reason, one.reason)
            return f"lost its cache of {_counted(one.lost, 'position')}, {_counted(one.freed, 'block')} freed: {why}"
        case "resumed":
            return "goes on" if one.cached is None else f"goes on, {found}"
        case "ended":
            return f"ended: {one.reason}" + (f" ({one.error})" if one.error else "")
        case other:
            return _TOLD.get(other, other)


def course_told(course: Course) -> str:
    """The whole of it in a line."""
    parts = [_counted(len(course.steps), "step")]
    if not course.complete:
        parts.append("those before anybody looked are missing")
    if course.prompt_tokens is not None:
        cached = count_told(course.cached_tokens or 0)
        parts.append(f"prompt {_counted(course.prompt_tokens, 'token')}, {cached} found in the cache")
    if drafted := sum(step.drafted for step in course.steps):
        kept = sum(step.kept for step in course.steps)
        parts.append(f"{count_told(kept)} of {count_told(drafted)} guessed tokens stood")
    return "; ".join([*parts, _state_of(course)])


def _state_of(course: Course) -> str:
    """What the sequence does behind its last event."""
    if not course.happenings:
        return "running"
    last = course.happenings[-1]
    match last.event:
        case "admitted" | "resumed":
            return "running"
        case "ended":
            return happening_told(last)
        case "paused" | "parked":
            return last.event
        case _:
            return "waiting"


def _counted(count: int, one: str, several: str = "") -> str:
    return f"{count_told(count)} {one if count == 1 else several or one + 's'}"
