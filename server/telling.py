"""Telling: one streamed answer, which outlives its clients for a while."""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from typing import Protocol

from anyio import CancelScope

from server.account import Account
from server.errors import ApiError, Kind
from server.events import Event
from server.record import Record
from server.recorder import Endpoint, Outcome
from server.streams import Arrival, Streams

Write = Callable[[bytes], Awaitable[None]]
Settled = Callable[[], Awaitable[None]]

REQUEST_BYTES = 16 * 1024  # about what a request takes beside its events and its tokens
TOKEN_BYTES = 64  # of the prompt: in the request, in its sequence, and its part of a prefix key

log = logging.getLogger(__name__)


class Renderer(Protocol):
    """What the deltas of an answer look like as events. `id` is the answer's."""

    @property
    def id(self) -> str:
        """Every event's id is made of it."""
        ...

    def first(self) -> Iterable[Event]:
        """What is said as soon as the queue has taken the request."""
        ...

    def feed(self, arrival: Arrival) -> Iterable[Event]:
        """The events of one delta; none where it shows nothing."""
        ...

    def last(self) -> Iterable[Event]:
        """The events after the last delta."""
        ...

    def failed(self, error: ApiError) -> Iterable[Event]:
        """The events in place of all that were still to come."""
        ...


class Keeper(Protocol):
    """Who decides how long answers are kept, and how much of them."""

    def grew(self, telling: "Telling", num_bytes: int) -> None:
        """An answer holds more."""
        ...

    def left(self, telling: "Telling") -> None:
        """An answer has no client any more."""
        ...

    def back(self, telling: "Telling") -> None:
        """An answer has a client again."""
        ...


class Forgotten(Exception):
    """What a client wants to hear again is not there any more."""


class Telling:
    """Tells one answer to one client at a time, and keeps what is said before it is sent.

    While no client is there its request is parked. An error becomes the last event. `owner` is whose key asked.
    Nobody hears the end before `settled` returns.
    """

    def __init__(
        self,
        streams: Streams,
        renderer: Renderer,
        account: Account,
        *,
        keeper: Keeper,
        endpoint: Endpoint,
        owner: str,
        settled: Settled,
    ) -> None:
        self.id = renderer.id
        self.endpoint = endpoint
        self.owner = owner
        self.account = account
        self.record = Record(renderer.id)
        self.alone = False  # whether it runs on its own; then anybody may follow
        self.renderer = renderer
        self.settled = settled
        self._streams = streams
        self._keeper = keeper
        self._begun = False
        self._outcome: Outcome | None = None
        self.dropped = False
        self._stopped = False
        self._turn = asyncio.Lock()
        self._newest: CancelScope | None = None
        self._held_bytes = REQUEST_BYTES + TOKEN_BYTES * account.prompt_tokens

    @property
    def num_bytes(self) -> int:
        """What it holds: its events, and about what its request takes."""
        return self.record.num_bytes + self._held_bytes

    @property
    def ended(self) -> bool:
        """Whether everything is said."""
        return self._outcome is not None

    @asynccontextmanager
    async def listening(self, scope: CancelScope) -> AsyncIterator[None]:
        """Be the one client that it is told to; `scope` is cancelled as soon as a newer one comes."""
        if self._newest is not None:
            self._newest.cancel()
        self._newest = scope
        async with self._turn:
            if self.dropped:
                raise Forgotten
            self._keeper.back(self)
            self._streams.unpark()
            try:
                yield
            finally:
                if self._newest is scope:
                    self._leave()

    def _leave(self) -> None:
        self._newest = None
        if self._outcome is None:
            self._streams.park()
        else:
            self.account.close(Outcome.ABORTED)  # unless all of it was sent
        self._keeper.left(self)

    async def tell(self, write: Write, *, start: int) -> None:
        """Say again what was said from event `start` on, and go on to the end."""
        said = self.record.since(start)
        if said is None:
            raise Forgotten
        if self.ended:
            await self.settled()
        for frame in said:
            await write(frame)
        if self._outcome is None:
            await self._go_on(write)
        assert self._outcome is not None, "it has ended"
        self.account.close(self._outcome)

    async def run(self) -> None:
        """Tell it to nobody: what is said is kept, and others may follow."""
        await self._go_on(_to_nobody)
        assert self._outcome is not None, "it has ended"
        self.account.close(self._outcome)
        self._keeper.left(self)

    def stop(self) -> None:
        """Let it end where it is."""
        self._stopped = True
        self._streams.close()

    async def _go_on(self, write: Write) -> None:
        try:
            await self._write_events(write)
            last = self.renderer.last()
            outcome = Outcome.ABORTED if self._stopped else Outcome.FINISHED
        except Exception as error:  # noqa: BLE001  # whatever it is, the client is told and the stream ends
            told = _told(error)
            self.account.fail(told)
            last = self.renderer.failed(told)
            outcome = Outcome.FAILED
        frames = self._keep(last)
        self._outcome = outcome
        self._streams.close()
        await self.settled()
        await write(frames)

    async def _write_events(self, write: Write) -> None:
        if not self._begun:
            self._begun = True
            await self._say(self.renderer.first(), write)
        async with self._streams.reading() as arrivals:
            async for arrival in arrivals:
                self.account.count(arrival.delta)
                await self._say(self.renderer.feed(arrival), write)

    async def _say(self, events: Iterable[Event], write: Write) -> None:
        frames = self._keep(events)
        if frames:
            await write(frames)

    def _keep(self, events: Iterable[Event]) -> bytes:
        frames = self.record.add(events)
        self._keeper.grew(self, len(frames))
        return frames

    def drop(self) -> None:
        """Nobody will come back: abort what has not ended."""
        self.dropped = True
        self._streams.close()
        self.record.add(())  # who waits for more looks up
        self.account.close(Outcome.ABORTED)


async def at_once() -> None:
    """Nothing is to be settled."""


async def _to_nobody(frames: bytes) -> None:
    """Nobody listens, and what is said is kept."""


def _told(error: Exception) -> ApiError:
    if isinstance(error, ApiError):
        return error
    log.error("stream_failed", exc_info=error, extra={"discreet": True})  # its words may be the client's
    return ApiError(500, "the server failed on this request", kind=Kind.SERVER)
