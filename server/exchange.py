"""Exchanges: every request gets an id, a time, an answer and exactly one line in the log."""

import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol
from uuid import uuid4

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from server.errors import Kind, failure_response
from server.logs import Field, Log
from server.tally import DIGITS, Tally

_SANE_ID = re.compile(r"[\x21-\x7e]{1,128}")
MAX_TOLD_PATH = 200  # characters; a path is the client's own text
_PROBES = frozenset({"/health", "/ready", "/metrics"})  # asked for every few seconds: logged only for debugging


@dataclass(slots=True)
class Exchange:
    """One HTTP request and its answer, in `request.state.exchange`. Where the model runs for it there is a tally.

    Its line is written when it is over and nothing holds it: an answer that goes on without it does.
    """

    request_id: str
    began: float
    write: Callable[["Exchange"], None]
    status: int | None = None
    complete: bool = False
    tally: Tally | None = None
    resumed: bool | None = None  # it got the rest of an answer
    moved: bool | None = None  # another got the rest of its answer while it was open
    trace_id: str | None = None
    _over: bool = False
    _held: bool = False

    def hold(self) -> None:
        """An answer goes on without it, and will release it."""
        self._held = True

    def release(self) -> None:
        """The answer has ended."""
        if self._held:
            self._held = False
            self._settle()

    def end(self) -> None:
        """Everything that will be sent is sent."""
        self._over = True
        self._settle()

    def _settle(self) -> None:
        if self._over and not self._held:
            self.write(self)


class Tracing(Protocol):
    """What makes spans of exchanges that have ended."""

    def record(self, scope: Scope, exchange: Exchange) -> str | None:
        """Take one, and wait for nothing; its trace's id, if it is kept."""
        ...

    async def close(self, seconds: float) -> None:
        """Send what has not been sent, for so long at most."""
        ...


class Exchanges:
    """Gives every request an id, times it, answers 500 where nothing else did, logs one line and traces it."""

    def __init__(
        self,
        app: ASGIApp,
        *,
        log: Log,
        tracing: Tracing | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._app = app
        self._log = log
        self._tracing = tracing
        self._clock = clock

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Run the rest of the application within an exchange."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        state = scope.setdefault("state", {})
        request_id = state.get("request_id") or _request_id(Headers(scope=scope))  # one that is refused already has one
        exchange = Exchange(request_id, self._clock(), lambda exchange: self._write_line(scope, exchange))
        state.update(exchange=exchange, request_id=exchange.request_id)

        async def send_and_note(message: Message) -> None:
            self._note(exchange, message)
            await send(message)

        try:
            await self._answer(scope, receive, send_and_note, exchange)
        finally:
            exchange.end()

    async def _answer(self, scope: Scope, receive: Receive, send: Send, exchange: Exchange) -> None:
        try:
            await self._app(scope, receive, send)
        except Exception as error:
            if exchange.status is not None:
                raise  # the answer has begun: only closing the connection can say that it is broken
            self._log.request_failure("request_failed", error=error, request_id=exchange.request_id)
            response = failure_response(500, "the server failed on this request", kind=Kind.SERVER)
            await response(scope, receive, send)

    def _note(self, exchange: Exchange, message: Message) -> None:
        if message["type"] == "http.response.start":
            exchange.status = message["status"]
            headers = MutableHeaders(scope=message)
            headers["x-request-id"] = headers["request-id"] = exchange.request_id  # Anthropic's SDKs read the latter
            headers["openai-processing-ms"] = str(round(self._seconds(exchange) * 1000))
        elif message["type"] == "http.response.body" and not message.get("more_body", False):
            exchange.complete = True

    def _seconds(self, exchange: Exchange) -> float:
        return self._clock() - exchange.began

    def _write_line(self, scope: Scope, exchange: Exchange) -> None:
        probe = scope["path"].removeprefix("/v1") in _PROBES
        if self._tracing is not None and not probe:
            exchange.trace_id = self._tracing.record(scope, exchange)
        self._log.request(fields_of(scope, exchange, seconds=self._seconds(exchange)), probe=probe)


def fields_of(scope: Scope, exchange: Exchange, *, seconds: float) -> dict[str, Field]:
    """What the line of a request has; None is left out."""
    state, tally = scope["state"], exchange.tally
    fields: dict[str, Field] = {
        "method": scope["method"],
        "path": scope["path"][:MAX_TOLD_PATH],
        "endpoint": endpoint_of(scope),
        "status": exchange.status,
        "complete": None if exchange.complete else False,
        "request_id": exchange.request_id,
        "key": state.get("key_number"),
        "error_code": error_of(scope, exchange),
        "resumed": exchange.resumed,
        "moved": exchange.moved,
    }
    counts: Mapping[str, Field] = {} if tally is None else tally.fields
    return {**fields, **counts, "total_seconds": round(seconds, DIGITS), "trace_id": exchange.trace_id}


def error_of(scope: Scope, exchange: Exchange) -> str | None:
    """The code of the error that was answered, or that a stream ended with."""
    answered: str | None = scope["state"].get("error_code")
    return answered or (None if exchange.tally is None else exchange.tally.error)


def endpoint_of(scope: Scope) -> str | None:
    """The pattern of the path, without the prefix; None where there is no such path."""
    route = scope.get("route")
    path = getattr(route, "path", None)
    return None if path is None else str(path).removeprefix("/v1")


def _request_id(headers: Headers) -> str:
    given = headers.get("x-request-id", "")
    return given if _SANE_ID.fullmatch(given) else new_request_id()


def new_request_id() -> str:
    """The id of a request whose client gave none."""
    return f"req_{uuid4().hex}"
