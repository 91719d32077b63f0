"""DeltaStream: one request's deltas on their way to its client, bounded, and what a slow reader costs."""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence as Run
from types import TracebackType
from typing import Self

from engine.course import Course
from engine.errors import SlowReader
from engine.request import Delta
from engine.sequence import Sequence


class DeltaStream:
    """The deltas of all choices of one request, in the order of publishing.

    When `max_deltas` wait unread the request's sequences are flagged as stalled, and resume once
    half of them are read; when that takes longer than `slow_reader_seconds` they end with
    SlowReader. Leaving the context, or `close`, aborts whatever has not ended. A client that may come
    back is parked in its place: nothing is lost, and nothing computed, until `unpark`.
    """

    def __init__(
        self,
        sequences: Run[Sequence],
        *,
        max_deltas: int,
        slow_reader_seconds: float,
        wake: Callable[[], None],
        on_disconnect: Callable[[], None],
    ) -> None:
        self._sequences = tuple(sequences)
        self._open = {sequence.choice for sequence in sequences}
        self._max_deltas = max_deltas
        self._slow_reader_seconds = slow_reader_seconds
        self._wake = wake
        self._on_disconnect = on_disconnect
        self._deltas: deque[Delta] = deque()
        self._arrived = asyncio.Event()
        self._full = False
        self._patience: asyncio.TimerHandle | None = None
        self._parked = False
        self.closed = False

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Delta:
        while not self._deltas:
            if self.closed or not self._open:
                raise StopAsyncIteration
            self._arrived.clear()
            await self._arrived.wait()
        delta = self._deltas.popleft()
        if self._full and len(self._deltas) <= self._max_deltas // 2:
            self._resume()
        return delta

    @property
    def courses(self) -> tuple[Course, ...]:
        """What has befallen each choice so far, whoever has read what."""
        return tuple(sequence.course for sequence in self._sequences)

    def put(self, delta: Delta) -> None:
        """Hand over a delta; never waits. A stream that is full asks for a pause instead."""
        assert delta.choice in self._open, "a choice ends once"
        if delta.end is not None:
            self._open.discard(delta.choice)
        self._deltas.append(delta)
        self._arrived.set()
        if len(self._deltas) >= self._max_deltas and self._open and not self._full:
            self._stall()

    def close(self) -> None:
        """Abort what has not ended. Safe in every state, and twice."""
        if self.closed:
            return
        self.closed = True
        self._forget_patience()
        self._deltas.clear()
        self._arrived.set()
        if self._open:
            if not self._parked:
                self._on_disconnect()
            for sequence in self._sequences:
                sequence.aborted = True
            self._wake()

    def park(self) -> None:
        """The client has left and may come back: what has not ended gives its cache back within a step."""
        if self.closed or self._parked or not self._open:
            return
        self._parked = True
        self._forget_patience()
        self._on_disconnect()
        self._flag_parked()

    def unpark(self) -> None:
        """The client is back: what was parked is queued again and goes on where it stood."""
        if not self._parked:
            return
        self._parked = False
        if self._full:
            self._begin_patience()
        self._flag_parked()

    def _flag_parked(self) -> None:
        for sequence in self._sequences:
            sequence.parked = self._parked
        self._wake()

    def _stall(self) -> None:
        self._full = True
        for sequence in self._sequences:
            sequence.stalled = True
        if not self._parked:
            self._begin_patience()

    def _begin_patience(self) -> None:
        self._patience = asyncio.get_running_loop().call_later(self._slow_reader_seconds, self._give_up)

    def _resume(self) -> None:
        self._full = False
        self._forget_patience()
        for sequence in self._sequences:
            sequence.stalled = False
        self._wake()

    def _give_up(self) -> None:
        for sequence in self._sequences:
            sequence.aborted = True
            sequence.abort_error = SlowReader(limit_seconds=self._slow_reader_seconds)
        self._wake()

    def _forget_patience(self) -> None:
        if self._patience is not None:
            self._patience.cancel()
            self._patience = None
