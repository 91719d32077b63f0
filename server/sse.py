"""Server-sent events: the response that owns its source and closes it when the client leaves."""

import asyncio
import logging
from collections.abc import Iterable
from typing import Protocol

from anyio import sleep
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from server.account import Account
from server.errors import ApiError, Kind
from server.events import Event, encode
from server.recorder import Outcome
from server.streams import Arrival, Streams
from server.tasks import cancel_when_gone, task_group

COMMENT = b": keep-alive\n\n"

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


class EventStream(Response):
    """Sends an answer as it grows. The headers go out at once.

    Every event has an id: the answer's, and the event's number in it, from 0. An error becomes the
    last event. A comment goes out whenever nothing was sent for `keep_alive_seconds`. A send that
    takes longer than `send_seconds` ends the answer.
    """

    media_type = "text/event-stream"

    def __init__(
        self,
        streams: Streams,
        renderer: Renderer,
        account: Account,
        *,
        keep_alive_seconds: float,
        send_seconds: float,
    ) -> None:
        self.status_code = 200
        self.background = None
        self.init_headers({"cache-control": "no-cache", "x-accel-buffering": "no"})
        self._streams = streams
        self._renderer = renderer
        self._account = account
        self._keep_alive_seconds = keep_alive_seconds
        self._send_seconds = send_seconds
        self._num_told = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send until the answer ends or the client leaves, whichever comes first."""
        writer = _Writer(send)
        try:
            await writer.start(self.status_code, self.raw_headers)
            async with task_group() as group:
                group.start_soon(cancel_when_gone, receive, group.cancel_scope)
                group.start_soon(writer.keep_alive, self._keep_alive_seconds)
                group.start_soon(writer.watch, self._send_seconds)
                self._account.close(await self._write(writer))
                group.cancel_scope.cancel()
        except TimeoutError:
            self._account.close(Outcome.FAILED)  # returning with the answer open closes the connection
        finally:
            self._streams.close()
            self._account.close(Outcome.ABORTED)

    async def _write(self, writer: "_Writer") -> Outcome:
        """The whole answer, and how it ended."""
        outcome = Outcome.FINISHED
        try:
            await self._write_events(writer)
            last = self._renderer.last()
        except Exception as error:  # noqa: BLE001  # whatever it is, the client is told and the stream ends
            outcome = Outcome.FAILED
            last = self._renderer.failed(_told(error))
        await writer.write(self._frames(last), more=False)
        return outcome

    async def _write_events(self, writer: "_Writer") -> None:
        await writer.write_any(self._frames(self._renderer.first()))
        async with self._streams.reading() as arrivals:
            async for arrival in arrivals:
                self._account.count(arrival.delta)
                await writer.write_any(self._frames(self._renderer.feed(arrival)))

    def _frames(self, events: Iterable[Event]) -> bytes:
        """The events as they are sent, each with the next number."""
        frames = []
        for told in events:
            frames.append(encode(told, f"{self._renderer.id}:{self._num_told}"))
            self._num_told += 1
        return b"".join(frames)


def _told(error: Exception) -> ApiError:
    if isinstance(error, ApiError):
        return error
    log.error("stream_failed", exc_info=error)
    return ApiError(500, "the server failed on this request", kind=Kind.SERVER)


class _Writer:
    """Sends one message at a time, and knows since when it is silent or stuck."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._turn = asyncio.Lock()
        self._clock = asyncio.get_running_loop().time
        self._sent_at = self._clock()
        self._sending_since: float | None = None

    async def start(self, status: int, headers: list[tuple[bytes, bytes]]) -> None:
        await self._send({"type": "http.response.start", "status": status, "headers": headers})

    async def write(self, data: bytes, *, more: bool = True) -> None:
        async with self._turn:
            self._sending_since = self._clock()
            await self._send({"type": "http.response.body", "body": data, "more_body": more})
            self._sent_at = self._clock()
            self._sending_since = None

    async def write_any(self, data: bytes) -> None:
        """Write it, unless it is nothing."""
        if data:
            await self.write(data)

    async def keep_alive(self, idle_seconds: float) -> None:
        """Send a comment after every silence of `idle_seconds`."""
        while True:
            silent_seconds = self._clock() - self._sent_at
            if silent_seconds >= idle_seconds:
                await self.write(COMMENT)
            else:
                await sleep(idle_seconds - silent_seconds)

    async def watch(self, limit_seconds: float) -> None:
        """Raise TimeoutError once a message has not been taken for `limit_seconds`."""
        while True:
            since = self._sending_since
            stuck_seconds = 0.0 if since is None else self._clock() - since
            if stuck_seconds >= limit_seconds:
                raise TimeoutError
            await sleep(limit_seconds - stuck_seconds)
