"""Record: the events of one streamed answer as they were sent, so that a client that lost some gets them again."""

import asyncio
from collections import deque
from collections.abc import Iterable

from server.events import Event, encode


class Record:
    """Numbers the events of an answer from 0 and keeps them, until they are forgotten to make room."""

    def __init__(self, id: str) -> None:
        self.id = id
        self.num_bytes = 0
        self._frames: deque[bytes] = deque()
        self._num_forgotten = 0
        self._grown: asyncio.Event | None = None

    @property
    def num_events(self) -> int:
        """How many there have been."""
        return self._num_forgotten + len(self._frames)

    def add(self, events: Iterable[Event]) -> bytes:
        """Keep the next events; what they are on the wire."""
        frames = []
        for told in events:
            frame = encode(told, f"{self.id}:{self.num_events}")
            self._frames.append(frame)
            self.num_bytes += len(frame)
            frames.append(frame)
        if self._grown is not None:
            self._grown.set()
            self._grown = None
        return b"".join(frames)

    def since(self, number: int) -> list[bytes] | None:
        """The events from `number` on, or None where some of them are forgotten or can't be."""
        if not self._num_forgotten <= number <= self.num_events:
            return None
        return list(self._frames)[number - self._num_forgotten :]

    async def grown(self) -> None:
        """Wait for what is added next, which may be nothing."""
        if self._grown is None:
            self._grown = asyncio.Event()
        await self._grown.wait()

    def forget(self) -> int:
        """Let go of what there has been so far; how many bytes that were."""
        self._num_forgotten = self.num_events
        self._frames.clear()
        num_bytes, self.num_bytes = self.num_bytes, 0
        return num_bytes
