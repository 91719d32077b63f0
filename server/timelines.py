"""Timelines: sequences' last steps and what befell them in between, and drafts that fell, while somebody watches."""

from collections import OrderedDict, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from engine.course import Course, Event, Moment
from engine.stats import StepRecord, StepRow
from server.requests import is_of

MAX_ROWS = 20_000  # of all timelines: some 10 MB, and the last half minute of sixteen fast streams
MAX_TIMELINES = 4096
MAX_MOMENTS = 64  # of a timeline, the last ones
MAX_FALLEN = 256  # drafts; a watcher that reads slower than they fall misses some
MAX_ENDED = 256  # sequences; as above
MAX_CUT = 4096  # sequences of which is known that their first steps are gone


class TimedRow(NamedTuple):  # cheaper to make than a dataclass, and a step makes one for every sequence
    """What a step did to a sequence, and when."""

    step: int
    at: float
    seconds: float
    row: StepRow


@dataclass(frozen=True, slots=True)
class Fallen:
    """A draft that was not kept whole. Numbered from 1."""

    number: int
    step: int
    row: StepRow


@dataclass(frozen=True, slots=True)
class Ended:
    """A sequence that ended. Numbered from 1."""

    number: int
    sequence: str
    moment: Moment


@dataclass(slots=True)
class Timeline:
    """The steps of one sequence, the oldest first; `complete` if none is missing. And the last of what befell it."""

    sequence: str
    complete: bool
    rows: list[TimedRow] = field(default_factory=list)
    num_moments: int = 0  # as many as there were
    moments: deque[Moment] = field(default_factory=lambda: deque(maxlen=MAX_MOMENTS))

    @property
    def end(self) -> Moment | None:
        """How it ended, if it has."""
        last = self.moments[-1] if self.moments else None
        return last if last is not None and last.event is Event.ENDED else None

    def add(self, moment: Moment) -> None:
        """One more thing befell it."""
        self.moments.append(moment)
        self.num_moments += 1


class Timelines:
    """Notes steps and hears of the rest. Of what is too much, the sequence goes first whose last is longest ago."""

    def __init__(self, *, max_rows: int = MAX_ROWS, max_timelines: int = MAX_TIMELINES) -> None:
        self._max_rows = max_rows
        self._max_timelines = max_timelines
        self._timelines: OrderedDict[str, Timeline] = OrderedDict()  # the latest that something befell comes last
        self._cut: OrderedDict[str, None] = OrderedDict()
        self._num_rows = 0
        self._fallen: deque[Fallen] = deque(maxlen=MAX_FALLEN)
        self._ended: deque[Ended] = deque(maxlen=MAX_ENDED)
        self.num_fallen = 0
        self.num_ended = 0

    def begin(self, courses: Mapping[str, Course]) -> None:
        """Start with what befell the sequences that there are; of those that have run, the first steps are not seen."""
        self._timelines.clear()
        self._fallen.clear()
        self._ended.clear()
        self._num_rows = 0
        self._cut = OrderedDict.fromkeys(id for id, course in courses.items() if course.admitted_at is not None)
        for id, course in reversed(list(courses.items())):  # who came first has the next step
            for moment in course.moments:
                self.hear(id, moment)

    def note(self, record: StepRecord) -> None:
        """Add a step."""
        for row in record.rows:
            self._timeline(row.sequence).rows.append(TimedRow(record.step, record.at, record.seconds, row))
            self._num_rows += 1
            if row.num_kept < len(row.drafts):
                self.num_fallen += 1
                self._fallen.append(Fallen(self.num_fallen, record.step, row))
        while self._num_rows > self._max_rows:
            self._shed()

    def hear(self, sequence: str, moment: Moment) -> None:
        """Add what befell a sequence."""
        self._timeline(sequence).add(moment)
        if moment.event is Event.ENDED:
            self.num_ended += 1
            self._ended.append(Ended(self.num_ended, sequence, moment))
        if len(self._timelines) > self._max_timelines:
            self._shed()

    def _timeline(self, sequence: str) -> Timeline:
        if sequence not in self._timelines:
            self._timelines[sequence] = Timeline(sequence, complete=sequence not in self._cut)
        self._timelines.move_to_end(sequence)
        return self._timelines[sequence]

    def _shed(self) -> None:
        """Drop the oldest timeline, or the first half of the only one."""
        if len(self._timelines) > 1:
            sequence, timeline = self._timelines.popitem(last=False)
            self._num_rows -= len(timeline.rows)
            if timeline.rows:
                self._note_cut(sequence)
            return
        (timeline,) = self._timelines.values()
        num_gone = (len(timeline.rows) + 1) // 2
        del timeline.rows[:num_gone]
        timeline.complete = False
        self._num_rows -= num_gone

    def _note_cut(self, sequence: str) -> None:
        self._cut[sequence] = None
        if len(self._cut) > MAX_CUT:
            self._cut.popitem(last=False)

    def of(self, request_id: str) -> list[Timeline]:
        """Those of one request, by the id of its answer."""
        return [
            timeline for sequence, timeline in self._timelines.items() if is_of(sequence.rpartition("/")[0], request_id)
        ]

    def fallen(self, start: int, stop: int) -> Sequence[Fallen]:
        """The drafts that fell behind number `start`, up to number `stop`, as far as they are known."""
        return [each for each in self._fallen if start < each.number <= stop]

    def ended(self, start: int, stop: int) -> Sequence[Ended]:
        """The same of sequences that ended."""
        return [each for each in self._ended if start < each.number <= stop]
