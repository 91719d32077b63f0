"""Tally: what one request asked for, used and came to, as its line in the log tells it."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from engine.course import Course
from engine.request import Delta
from server.logs import Field
from server.recorder import Endpoint, Outcome

DIGITS = 4  # of seconds: a tenth of a millisecond


class Source(Protocol):
    """A request that the engine has taken."""

    @property
    def courses(self) -> tuple[Course, ...]:
        """What has befallen each of its choices so far."""
        ...


@dataclass(slots=True)
class Tally:
    """The record of one request at an endpoint that runs the model. Holds counts, times and names, never text.

    `outcome` is None until its account is closed: an answer whose client has left may go on. `output_tokens` are those
    handed to the client.
    """

    endpoint: Endpoint
    model: str | None = None
    stream: bool | None = None
    background: bool | None = None
    response_id: str | None = None
    prompt_tokens: int | None = None
    output_tokens: int | None = None
    outcome: Outcome | None = None
    error: str | None = None
    reasons: set[str] = field(default_factory=set)
    _open: list[Source] = field(default_factory=list)
    _ended: list[Course] = field(default_factory=list)

    def follow(self, sources: Iterable[Source]) -> None:
        """These are the engine's; look at them when asked."""
        self._open.extend(sources)

    def leave(self, sources: Iterable[Source]) -> None:
        """They have ended: keep what befell them, and let go of the rest."""
        for source in sources:
            self._open.remove(source)
            self._ended.extend(source.courses)

    def count(self, delta: Delta) -> None:
        """A delta is on its way to the client."""
        self.output_tokens = (self.output_tokens or 0) + len(delta.tokens)
        if delta.end is not None:
            self.reasons.add(delta.end.reason.value)

    @property
    def courses(self) -> list[Course]:
        """What has befallen every choice of every prompt so far."""
        return [*self._ended, *(course for source in self._open for course in source.courses)]

    @property
    def fields(self) -> Mapping[str, Field]:
        """What its line in the log has."""
        asked: dict[str, Field] = {
            "outcome": "parked" if self.outcome is None else self.outcome.value,
            "model": self.model,
            "stream": self.stream,
            "background": self.background,
            "response_id": self.response_id,
            "prompt_tokens": self.prompt_tokens,
        }
        if self.prompt_tokens is None:
            return asked
        courses = self.courses
        return asked | {"output_tokens": self.output_tokens} | _counts(courses) | self._reason() | _seconds(courses)

    def _reason(self) -> dict[str, Field]:
        return {"finish_reason": ",".join(sorted(self.reasons)) or None}


def _counts(courses: list[Course]) -> dict[str, Field]:
    """Choices share a prompt, so what was found of it in the cache is the first's."""
    return {
        "choices": len(courses),
        "cached_tokens": sum(course.usage.cached_tokens for course in courses if course.choice == 0),
        "drafts_kept": sum(course.drafts_kept for course in courses),
        "drafts_rejected": sum(course.drafts_fallen for course in courses),
        "preemptions": sum(course.num_preemptions for course in courses),
    }


def _seconds(courses: list[Course]) -> dict[str, Field]:
    queues = [course.admitted_at - course.arrived_at for course in courses if course.admitted_at is not None]
    firsts = [course.first_output_at - course.arrived_at for course in courses if course.first_output_at is not None]
    gaps = list(_gaps(courses))
    num_gaps = sum(count for _, count in gaps)
    return {
        "queue_seconds": round(max(queues), DIGITS) if queues else None,
        "first_token_seconds": round(min(firsts), DIGITS) if firsts else None,
        "gap_seconds": round(sum(total for total, _ in gaps) / num_gaps, DIGITS) if num_gaps else None,
    }


def _gaps(courses: list[Course]) -> Iterator[tuple[float, int]]:
    """For each choice, the time from its first token to its last, and the gaps between them."""
    for course in courses:
        if course.first_output_at is not None and course.last_output_at is not None:
            yield course.last_output_at - course.first_output_at, course.usage.output_tokens - 1
