"""Records: the streamed answers that are being told, and those that can be resumed. Bounded in time and bytes."""

import asyncio

from server.recorder import Endpoint
from server.telling import Telling


class Records:
    """Knows each streamed answer by its id, from its beginning until `seconds` after its last client left.

    What all of them hold together is at most `max_bytes`: beyond it those whose clients left first are dropped,
    and where all have clients, what these were sent is forgotten. `seconds` 0 drops whatever is left.
    """

    def __init__(self, *, seconds: float, max_bytes: int) -> None:
        self._seconds = seconds
        self._max_bytes = max_bytes
        self._num_bytes = 0
        self._tellings: dict[str, Telling] = {}
        self._left: dict[str, asyncio.TimerHandle] = {}  # those without a client, who left first first

    def add(self, telling: Telling) -> None:
        """Know a new answer, whose client is about to listen."""
        self._tellings[telling.id] = telling
        self.grew(telling, telling.num_bytes)

    def find(self, id: str, *, endpoint: Endpoint, owner: str) -> Telling | None:
        """The answer of that id, if it is still known, from this endpoint and the owner's."""
        telling = self._tellings.get(id)
        return telling if telling is not None and (telling.endpoint, telling.owner) == (endpoint, owner) else None

    def forget(self, telling: Telling) -> None:
        """Let go of an answer at once, and end it."""
        if self._tellings.get(telling.id) is telling:
            self._drop(telling.id)

    # -- what tellings say ------------------------------------------------------------------------

    def grew(self, telling: Telling, num_bytes: int) -> None:
        """An answer holds more."""
        if telling.id not in self._tellings:
            return
        self._num_bytes += num_bytes
        if self._num_bytes > self._max_bytes:
            self._make_room()

    def left(self, telling: Telling) -> None:
        """An answer has no client any more."""
        if telling.id not in self._tellings:
            return
        if self._seconds:
            loop = asyncio.get_running_loop()
            self._left[telling.id] = loop.call_later(self._seconds, self._drop, telling.id)
        else:
            self._drop(telling.id)

    def back(self, telling: Telling) -> None:
        """An answer has a client again."""
        timer = self._left.pop(telling.id, None)
        if timer is not None:
            timer.cancel()

    # -- bounds -----------------------------------------------------------------------------------

    def _make_room(self) -> None:
        for id in list(self._left):
            if self._num_bytes <= self._max_bytes:
                return
            self._drop(id)
        for telling in self._tellings.values():
            if self._num_bytes <= self._max_bytes:
                return
            self._num_bytes -= telling.record.forget()

    def _drop(self, id: str) -> None:
        telling = self._tellings.pop(id)
        self.back(telling)
        self._num_bytes -= telling.num_bytes
        telling.drop()

    def check(self) -> None:
        """Assert that the sum is that of its parts, and that what was left is known."""
        assert self._num_bytes == sum(telling.num_bytes for telling in self._tellings.values())
        assert set(self._left) <= set(self._tellings), "who has left is known"
