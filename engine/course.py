"""Course: what has befallen a sequence and when, for those who look at it from outside."""

from dataclasses import dataclass

from engine.request import Usage

MAX_MOMENTS = 64  # of a sequence; one whose client reads in fits and starts could have thousands


@dataclass(frozen=True, slots=True)
class Moment:
    """A sequence came into a state, at a time of the engine's clock, in seconds."""

    state: str
    at: float


@dataclass(frozen=True, slots=True)
class Course:
    """One sequence so far. Times are the engine's clock's, in seconds.

    `moments` are its first MAX_MOMENTS changes of state, and drafts those of all sources. It was preempted whenever its
    cache was taken back before the end: for others, because its client had left, or because its step had failed.
    """

    choice: int
    usage: Usage
    drafts_kept: int
    drafts_fallen: int
    num_preemptions: int
    arrived_at: float
    admitted_at: float | None
    first_output_at: float | None
    last_output_at: float | None
    moments: tuple[Moment, ...]
