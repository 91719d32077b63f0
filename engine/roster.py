"""Roster: every unfinished sequence, by state, in the order in which they go."""

import time
from bisect import insort
from collections.abc import Callable, Iterator

from engine.course import MAX_MOMENTS, Event, Loss, Moment
from engine.errors import EngineError
from engine.sequence import Sequence, State


def _order(sequence: Sequence) -> tuple[int, int]:
    return sequence.order


def _tell_nobody(sequence: Sequence, moment: Moment) -> None:
    pass


class Roster:
    """The waiting, running, paused and parked sequences, each list ordered by `Sequence.order`.

    The only writer of `Sequence.state` and `moments`, of each of which `hear` is told. A paused sequence computes
    nothing and keeps its blocks until someone needs them; a parked one has none.
    """

    def __init__(
        self,
        *,
        clock: Callable[[], float] = time.monotonic,
        hear: Callable[[Sequence, Moment], None] = _tell_nobody,
    ) -> None:
        self._clock = clock
        self._hear = hear
        self._lists: dict[State, list[Sequence]] = {state: [] for state in State if state is not State.FINISHED}
        self._by_id: dict[str, Sequence] = {}

    @property
    def waiting(self) -> list[Sequence]:
        """Sequences without a cache, the next to be admitted first."""
        return self._lists[State.WAITING]

    @property
    def running(self) -> list[Sequence]:
        """Sequences that steps compute."""
        return self._lists[State.RUNNING]

    @property
    def paused(self) -> list[Sequence]:
        """Sequences whose client does not read fast enough."""
        return self._lists[State.PAUSED]

    @property
    def parked(self) -> list[Sequence]:
        """Sequences whose client has left, and may come back."""
        return self._lists[State.PARKED]

    def __iter__(self) -> Iterator[Sequence]:
        return iter(self._by_id.values())

    def __len__(self) -> int:
        return len(self._by_id)

    def get(self, sequence_id: str) -> Sequence | None:
        """The unfinished sequence of that id."""
        return self._by_id.get(sequence_id)

    def add(self, sequence: Sequence) -> None:
        """Take in a new sequence, waiting."""
        assert sequence.id not in self._by_id, f"sequence {sequence.id} is here already"
        self._by_id[sequence.id] = sequence
        insort(self._lists[State.WAITING], sequence, key=_order)
        self._note(sequence, Moment(Event.QUEUED, sequence.arrived_at))

    def move(
        self,
        sequence: Sequence,
        state: State,
        event: Event,
        *,
        cached: int | None = None,
        reason: str | None = None,
        error: EngineError | None = None,
    ) -> None:
        """Put an unfinished sequence into another state, and note what befell it; FINISHED takes it off the roster."""
        self._put(sequence, state)
        self._note(sequence, Moment(event, self._clock(), reason=reason, cached=cached, error=error))

    def preempt(self, sequence: Sequence, why: Loss, *, lost: int, freed: int) -> None:
        """Note that a sequence has lost its cache. One that ran waits; in another state it stays."""
        if sequence.state is State.RUNNING:
            self._put(sequence, State.WAITING)
        self._note(sequence, Moment(Event.PREEMPTED, self._clock(), reason=why.value, lost=lost, freed=freed))

    def _put(self, sequence: Sequence, state: State) -> None:
        self._lists[sequence.state].remove(sequence)
        sequence.state = state
        if state is State.FINISHED:
            del self._by_id[sequence.id]
        else:
            insort(self._lists[state], sequence, key=_order)

    def _note(self, sequence: Sequence, moment: Moment) -> None:
        if len(sequence.moments) < MAX_MOMENTS:
            sequence.moments.append(moment)
        self._hear(sequence, moment)

    def check(self) -> None:
        """Assert that each sequence is in the list of its state, once, in order."""
        for state, sequences in self._lists.items():
            assert all(sequence.state is state for sequence in sequences), f"a sequence among {state} is elsewhere"
            assert sequences == sorted(sequences, key=_order), f"{state} is in order"
        assert sum(map(len, self._lists.values())) == len(self._by_id), "each sequence is in one list"
