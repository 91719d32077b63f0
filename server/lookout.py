"""Lookout: everybody who watches the engine sees the same looks at it. None are taken, and no step noted, unwatched."""

import asyncio
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from config.settings import Settings
from engine.look import Look
from engine.stats import ModelInfo
from server.door import EngineDoor
from server.errors import unavailable
from server.events import encode, event
from server.render.sight import codes_body, counts_body, ended_body, engine_body, rejection_body, watched_sequences
from server.timelines import Timelines

MAX_WATCHERS = 16
LEAST_SECONDS = 0.2  # between two looks
LINGER_SECONDS = 60.0  # how long steps are noted after the last watcher has left: whose connection broke comes back


@dataclass(frozen=True, slots=True)
class Sight:
    """One look, numbered from 1: what it counts, as JSON, and the frames made of it, by the look that came before."""

    number: int
    look: Look
    state: str
    counts: dict[str, object]
    num_fallen: int
    num_ended: int
    frames: dict[int, bytes] = field(default_factory=dict)

    def shows_the_same_as(self, other: "Sight") -> bool:
        """Whether nothing has happened between the two."""
        mine, its = self.look, other.look
        return (
            (self.state, self.counts, mine.units, mine.slots) == (other.state, other.counts, its.units, its.slots)
            and mine.tables == its.tables
            and [(each.id, each.state, each.marks) for each in mine.snapshot.sequences]
            == [(each.id, each.state, each.marks) for each in its.snapshot.sequences]
        )


class Lookout:
    """Takes looks for those who watch, and notes steps for them. `settings` are shown."""

    def __init__(
        self,
        settings: Settings,
        *,
        clock: Callable[[], float] = time.monotonic,
        linger_seconds: float = LINGER_SECONDS,
    ) -> None:
        self.timelines = Timelines()
        self.over = asyncio.Event()  # no more looks: the engine has ended
        self._settings = settings
        self._clock = clock
        self._began_at = clock()
        self._linger_seconds = linger_seconds
        self._num_watchers = 0
        self._latest: Sight | None = None
        self._looked_at: float | None = None  # None: whatever there is, is old
        self._stop_noting: Callable[[], None] | None = None
        self._lingering: asyncio.TimerHandle | None = None

    # -- who watches --------------------------------------------------------------------------

    def check_room(self) -> None:
        """Raise the 503 of a watcher too many."""
        if self._num_watchers >= MAX_WATCHERS:
            raise unavailable("too_many_watchers", f"{MAX_WATCHERS} watch this server, and no more can")

    @contextmanager
    def watching(self, engine: EngineDoor) -> Iterator[None]:
        """Be a watcher."""
        self.check_room()
        self._num_watchers += 1
        self._begin(engine)
        try:
            yield
        finally:
            self._num_watchers -= 1
            if not self._num_watchers:
                self._latest = None
                self._lingering = asyncio.get_running_loop().call_later(self._linger_seconds, self._end)

    def _begin(self, engine: EngineDoor) -> None:
        if self._lingering is not None:
            self._lingering.cancel()
            self._lingering = None
        if self._stop_noting is None:
            self.timelines.begin(engine.courses())
            self._stop_noting = engine.observe(self.timelines.note, with_tables=False, hear=self.timelines.hear)

    def _end(self) -> None:
        """Nobody came back."""
        assert self._stop_noting is not None, "whoever left had begun"
        self._lingering = None
        self._stop_noting()
        self._stop_noting = None
        self.timelines.begin({})

    def close(self) -> None:
        """The engine has ended: one last look, for all who watch still."""
        self._looked_at = None
        self.over.set()

    # -- what they see ------------------------------------------------------------------------

    def sight(self, engine: EngineDoor, state: str) -> Sight:
        """The latest look, or a new one where that is old and something has happened since."""
        now = self._clock()
        if self._latest is None or self._looked_at is None or now - self._looked_at >= LEAST_SECONDS:
            self._looked_at = now
            self._latest = self._newer(engine, state, self._latest)
        return self._latest

    def _newer(self, engine: EngineDoor, state: str, latest: Sight | None) -> Sight:
        look = engine.look()
        sight = Sight(
            number=1 if latest is None else latest.number + 1,
            look=look,
            state=state,
            counts=counts_body(engine.info.cache, look.snapshot),
            num_fallen=self.timelines.num_fallen,
            num_ended=self.timelines.num_ended,
        )
        return latest if latest is not None and sight.shows_the_same_as(latest) else sight

    def frame(self, sight: Sight, before: Sight | None, info: ModelInfo) -> bytes:
        """A look on the wire: whole, or what has changed since an earlier one. Made once for all who saw that one."""
        number = 0 if before is None else before.number
        if number not in sight.frames:
            sight.frames[number] = encode(event(self._body(sight, before, info), "snapshot"), None)
        return sight.frames[number]

    def _body(self, sight: Sight, before: Sight | None, info: ModelInfo) -> dict[str, object]:
        look, old = sight.look, None if before is None else before.look
        fallen = () if before is None else self.timelines.fallen(before.num_fallen, sight.num_fallen)
        ended = () if before is None else self.timelines.ended(before.num_ended, sight.num_ended)
        body: dict[str, object] = {
            "whole": before is None,
            "time": round(look.at, 6),
            "uptime_seconds": round(self._clock() - self._began_at, 3),
            "server": sight.state,
            **({"info": engine_body(info, self._settings)} if before is None else {}),
            **sight.counts,
            "units": codes_body(look.units, None if old is None else old.units),
            "sequences": watched_sequences(info, look, old),
            "rejections": [rejection_body(each) for each in fallen],
            "ended": [ended_body(each) for each in ended],
        }
        if info.cache.num_slots:
            body["slots"] = codes_body(look.slots, None if old is None else old.slots)
        return body
