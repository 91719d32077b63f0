"""Course: what has befallen a sequence and when, for those who look at it from outside."""

from dataclasses import dataclass
from enum import Enum

from engine.errors import EngineError
from engine.request import Usage

MAX_MOMENTS = 64  # of a sequence; one whose client reads in fits and starts could have thousands


class Event(Enum):
    """What can befall a sequence outside its steps."""

    QUEUED = "queued"
    ADMITTED = "admitted"  # it runs for the first time
    PREEMPTED = "preempted"  # its cache is taken back
    PAUSED = "paused"  # its client does not read fast enough
    UNPAUSED = "unpaused"  # its client reads again, and it waits for a cache
    PARKED = "parked"  # its client has left
    UNPARKED = "unparked"  # its client has come back, and it waits
    RESUMED = "resumed"  # it runs again
    ENDED = "ended"


class Loss(Enum):
    """Why a sequence loses its cache before it ends."""

    ROOM = "room"  # others, who go first, need the place
    PARKED = "parked"
    STEP_FAILED = "step_failed"
    STALE = "stale"  # a step's result did not fit it


@dataclass(frozen=True, slots=True)
class Moment:
    """Something befell a sequence, at a time of the engine's clock, in seconds.

    `cached` positions were found in the cache where it came to run without one of its own. Where it was preempted
    it had computed `lost` positions, and `freed` units of the pool were nobody else's. `reason` says why it was
    preempted, or ended.
    """

    event: Event
    at: float
    reason: str | None = None
    cached: int | None = None
    lost: int | None = None
    freed: int | None = None
    error: EngineError | None = None


@dataclass(frozen=True, slots=True)
class Course:
    """One sequence so far. Times are the engine's clock's, in seconds.

    `moments` are its first MAX_MOMENTS, and drafts those of all sources. It was preempted whenever its
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
