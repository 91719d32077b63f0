"""Server-sent events: the response that sends an answer as it is told, and knows when its client leaves."""

import asyncio
from contextlib import AbstractAsyncContextManager
from typing import Protocol

from anyio import CancelScope, sleep
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from server.connection import break_off
from server.tasks import cancel_when_gone, task_group
from server.telling import Forgotten, Write

COMMENT = b": keep-alive\n\n"


class Teller(Protocol):
    """An answer that is told to a client."""

    def listening(self, scope: CancelScope) -> AbstractAsyncContextManager[None]:
        """Be a client; `scope` is cancelled when there is no reason to stay."""
        ...

    async def tell(self, write: Write, *, start: int) -> None:
        """Hand over every event from number `start` on, until the last, or raise Forgotten."""
        ...


class EventStream(Response):
    """Sends an answer as it grows, from event `start` on. The headers go out at once.

    A comment goes out whenever nothing was sent for `keep_alive_seconds`. A send that takes longer than
    `send_seconds` ends the answer, as does a client that leaves.
    """

    media_type = "text/event-stream"

    def __init__(self, teller: Teller, *, start: int = 0, keep_alive_seconds: float, send_seconds: float) -> None:
        self.status_code = 200
        self.background = None
        self.init_headers({"cache-control": "no-cache", "x-accel-buffering": "no"})
        self._teller = teller
        self._start = start
        self._keep_alive_seconds = keep_alive_seconds
        self._send_seconds = send_seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send until the answer ends or the client leaves, whichever comes first."""
        writer = _Writer(send)
        try:
            async with task_group() as group:
                group.start_soon(cancel_when_gone, receive, group.cancel_scope)
                # Before its turn: a client whose turn a newer one takes has headers, and is closed before the end.
                await writer.start(self.status_code, self.raw_headers)
                async with self._teller.listening(group.cancel_scope):
                    group.start_soon(writer.keep_alive, self._keep_alive_seconds)
                    group.start_soon(writer.watch, self._send_seconds)
                    await self._teller.tell(writer.write, start=self._start)
                    await writer.end()
                    group.cancel_scope.cancel()
        except (TimeoutError, Forgotten):
            pass
        if not writer.ended:
            await break_off(scope, receive)


class _Writer:
    """Sends one message at a time, and knows since when it is silent or stuck."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._turn = asyncio.Lock()
        self._clock = asyncio.get_running_loop().time
        self._sent_at = self._clock()
        self._sending_since: float | None = None
        self.ended = False

    async def start(self, status: int, headers: list[tuple[bytes, bytes]]) -> None:
        await self._send({"type": "http.response.start", "status": status, "headers": headers})

    async def write(self, data: bytes) -> None:
        await self._send_body(data, more=True)

    async def end(self) -> None:
        await self._send_body(b"", more=False)
        self.ended = True

    async def _send_body(self, data: bytes, *, more: bool) -> None:
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
