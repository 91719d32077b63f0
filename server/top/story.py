"""Story: the snapshots of the last seconds, and what their differences tell."""

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import islice

from server.top.sight import Drafts, Info, Measured, Rejection, Sequence, Sight
from server.top.units import Units
from server.top.values import NoSight

WINDOW_SECONDS = 3.0  # that rates are taken over: long enough to be steady, short enough to follow
KEPT_REJECTIONS = 50


@dataclass(frozen=True, slots=True)
class Rates:
    """What happened within some seconds, a second; and means of what was measured then, None where nothing was."""

    positions: Mapping[str, float]
    steps: float
    drafts: Mapping[str, float]  # by source, of those that had been verified
    recent: Mapping[str, Drafts]  # by source, counts within the window
    hit_rate: float | None
    stages: Mapping[str, float | None]  # seconds a step
    step_positions: float | None
    first_token: float | None
    gap: float | None


@dataclass(frozen=True, slots=True)
class Frame:
    """All that is drawn at one moment."""

    url: str
    sight: Sight
    info: Info
    units: Units
    rates: Rates
    age: float  # seconds since the snapshot came; while nothing happens none comes
    rejections: tuple[Rejection, ...]  # the newest first
    notice: str = ""  # what is wrong with the connection

    def age_of(self, sequence: Sequence) -> float:
        """Seconds since a sequence arrived."""
        return max(0.0, self.sight.time + self.age - sequence.arrived)


class Story:
    """Takes snapshots as they come, each with when it came on the clock of whoever asks for frames."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._sights: deque[tuple[float, Sight]] = deque()
        self._info: Info | None = None
        self._units = Units(())
        self._rejections: deque[Rejection] = deque(maxlen=KEPT_REJECTIONS)

    def add(self, sight: Sight, now: float) -> None:
        """One more. The first of a connection begins anew, since the server may be another. Raises NoSight."""
        if sight.info is None and self._info is None:
            raise NoSight("what answers does not begin with a whole snapshot")
        before = self._units if sight.info is None else Units(sight.info.widths)
        self._units = before.after(sight.units, {sequence.id: sequence.tables for sequence in sight.sequences})
        if sight.info is not None:
            self._sights.clear()
            self._rejections.clear()
            self._info = sight.info
        while len(self._sights) > 1 and self._sights[1][0] <= now - WINDOW_SECONDS:
            self._sights.popleft()
        self._sights.append((now, sight))
        self._rejections.extend(sight.rejections)

    def frame(self, now: float, notice: str = "") -> Frame:
        """What there is to draw, once something came."""
        assert self._info is not None, "the first snapshot of a connection is whole"
        came, last = self._sights[-1]
        began, first = self._first(now)
        return Frame(
            self._url,
            last,
            self._info,
            self._units,
            rates_between(first, last, now - began),
            now - came,
            tuple(islice(reversed(self._rejections), KEPT_REJECTIONS)),
            notice,
        )

    def _first(self, now: float) -> tuple[float, Sight]:
        """The newest that is a whole window old, else the oldest. While nothing comes the last one is as of now."""
        old = [each for each in self._sights if each[0] <= now - WINDOW_SECONDS]
        return (max(old[-1][0], now - WINDOW_SECONDS), old[-1][1]) if old else self._sights[0]


def rates_between(first: Sight, last: Sight, seconds: float) -> Rates:
    """What two snapshots of the same server tell, so many seconds apart."""
    span = seconds or 1.0  # of one snapshot alone all differences are zero
    positions = {name: (count - first.positions.get(name, 0)) / span for name, count in last.positions.items()}
    recent = {source: _since(first.drafts.get(source, Drafts()), each) for source, each in last.drafts.items()}
    queries = last.prefix_queries - first.prefix_queries
    stages = {stage: _mean(first.seconds.get(stage, Measured()), each) for stage, each in last.seconds.items()}
    return Rates(
        positions=positions,
        steps=(last.steps - first.steps) / span,
        drafts={source: each.drafts / span for source, each in recent.items()},
        recent=recent,
        hit_rate=(last.prefix_hits - first.prefix_hits) / queries if queries else None,
        stages=stages,
        step_positions=_mean(first.step_positions, last.step_positions),
        first_token=_mean(first.first_token, last.first_token),
        gap=_mean(first.gaps, last.gaps),
    )


def _since(first: Drafts, last: Drafts) -> Drafts:
    return Drafts(last.drafts - first.drafts, last.tokens - first.tokens, last.kept - first.kept)


def _mean(first: Measured, last: Measured) -> float | None:
    count = last.count - first.count
    return (last.sum - first.sum) / count if count else None
