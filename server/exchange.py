"""Exchanges: every request gets an id, a time, an answer and a line in the log."""

import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from uuid import uuid4

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from server.errors import Kind, failure_response
from server.logs import Log

_SANE_ID = re.compile(r"[\x21-\x7e]{1,128}")
_MAX_LOGGED_PATH = 200  # characters; a path is the client's own text
_PROBES = frozenset({"/health", "/ready", "/metrics"})  # asked for every few seconds: logged only for debugging


@dataclass(slots=True)
class Exchange:
    """One HTTP request and its answer, in `request.state.exchange`; routes fill in the token counts for the log."""

    request_id: str
    began: float
    status: int | None = None
    complete: bool = False
    prompt_tokens: int | None = None
    generated_tokens: int | None = None


class Exchanges:
    """Gives every request an id, times it, answers 500 where nothing else did, and logs one line."""

    def __init__(self, app: ASGIApp, *, log: Log, clock: Callable[[], float] = time.perf_counter) -> None:
        self._app = app
        self._log = log
        self._clock = clock

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Run the rest of the application within an exchange."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        exchange = Exchange(_request_id(Headers(scope=scope)), self._clock())
        scope.setdefault("state", {}).update(exchange=exchange, request_id=exchange.request_id)

        async def send_and_note(message: Message) -> None:
            self._note(exchange, message)
            await send(message)

        try:
            await self._answer(scope, receive, send_and_note, exchange)
        finally:
            self._write_line(scope, exchange)

    async def _answer(self, scope: Scope, receive: Receive, send: Send, exchange: Exchange) -> None:
        try:
            await self._app(scope, receive, send)
        except Exception as error:
            if exchange.status is not None:
                raise  # the answer has begun: only closing the connection can say that it is broken
            self._log.failure("request_failed", error=error, request_id=exchange.request_id)
            response = failure_response(500, "the server failed on this request", kind=Kind.SERVER)
            await response(scope, receive, send)

    def _note(self, exchange: Exchange, message: Message) -> None:
        if message["type"] == "http.response.start":
            exchange.status = message["status"]
            headers = MutableHeaders(scope=message)
            headers["x-request-id"] = headers["request-id"] = exchange.request_id  # Anthropic's SDKs read the latter
            headers["openai-processing-ms"] = str(self._milliseconds(exchange))
        elif message["type"] == "http.response.body" and not message.get("more_body", False):
            exchange.complete = True

    def _milliseconds(self, exchange: Exchange) -> int:
        return round((self._clock() - exchange.began) * 1000)

    def _write_line(self, scope: Scope, exchange: Exchange) -> None:
        write = self._log.debug if scope["path"].removeprefix("/v1") in _PROBES else self._log.info
        write(
            "request",
            method=scope["method"],
            path=scope["path"][:_MAX_LOGGED_PATH],
            status=exchange.status,
            complete=None if exchange.complete else False,
            ms=self._milliseconds(exchange),
            request_id=exchange.request_id,
            prompt_tokens=exchange.prompt_tokens,
            generated_tokens=exchange.generated_tokens,
        )


def _request_id(headers: Headers) -> str:
    given = headers.get("x-request-id", "")
    return given if _SANE_ID.fullmatch(given) else f"req_{uuid4().hex}"
