"""Server-sent events: frames, and the response that owns its source and closes it when the client leaves."""

import asyncio
import logging
from typing import Protocol

import orjson
from anyio import sleep
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from server.account import Account
from server.errors import ApiError, Kind
from server.recorder import Outcome
from server.streams import Arrival, Streams
from server.tasks import cancel_when_gone, task_group

DONE = b"data: [DONE]\n\n"
COMMENT = b": keep-alive\n\n"

log = logging.getLogger(__name__)


def frame(body: object) -> bytes:
    """One event."""
    return b"data: " + orjson.dumps(body) + b"\n\n"


class Renderer(Protocol):
    """What the deltas of an answer look like on the wire."""

    def feed(self, arrival: Arrival) -> bytes:
        """The frames of one delta; none where it shows nothing."""
        ...

    def last(self) -> bytes:
        """The frames after the last delta."""
        ...


class EventStream(Response):
    """Sends an answer as it grows. The headers go out at once.

    An error becomes the last event. A comment goes out whenever nothing was sent for
    `keep_alive_seconds`. A send that takes longer than `send_seconds` ends the answer.
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
            await self._write_deltas(writer)
            last = self._renderer.last()
        except Exception as error:  # noqa: BLE001  # whatever it is, the client is told and the stream ends
            outcome = Outcome.FAILED
            last = frame(_told(error).envelope)
        await writer.write(last, more=False)
        return outcome

    async def _write_deltas(self, writer: "_Writer") -> None:
        async with self._streams.reading() as arrivals:
            async for arrival in arrivals:
                self._account.count(arrival.delta)
                frames = self._renderer.feed(arrival)
                if frames:
                    await writer.write(frames)


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
