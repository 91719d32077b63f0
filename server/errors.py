"""One table: an error of the engine -> status, type and code. Every answer that is an error is made here."""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum

from fastapi import FastAPI
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Match
from starlette.types import Receive, Scope, Send

from engine.errors import (
    CompilersBusy,
    ContextTooLong,
    Draining,
    EmptyPrompt,
    EngineError,
    EngineStopped,
    GrammarFailed,
    GrammarRefused,
    PromptError,
    QueueFull,
    SlowReader,
    StepFailed,
    UnknownToken,
    VariableReserved,
)
from server.envelopes import envelope
from server.respond import json_response
from server.wire.status import ErrorBody, ErrorEnvelope

MAX_MESSAGE_CHARACTERS = 1000
RETRY_AFTER_SECONDS = 5  # a restart or a load takes about so long
_PROMPT = re.compile(r"\bprompt\b")
CLIENT_GONE = 499  # no standard status says that the client left; nobody reads it but the access log


class Kind(StrEnum):
    """An error's `type`: who is at fault, in OpenAI's words."""

    INVALID_REQUEST = "invalid_request_error"
    RATE_LIMIT = "rate_limit_error"
    SERVER = "server_error"


class ApiError(Exception):
    """An error as the client sees it. `param` names the field at fault."""

    def __init__(
        self,
        status: int,
        message: str,
        *,
        kind: str = Kind.INVALID_REQUEST,
        code: str | None = None,
        param: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.headers = dict(headers or {})
        self.body = ErrorBody(message=_clip(message), type=kind, param=param, code=code)

    @property
    def name(self) -> str:
        """What it is called in the log: the code, or whose fault it is."""
        return self.body["code"] or self.body["type"]

    @property
    def envelope(self) -> ErrorEnvelope:
        """The JSON around it."""
        return ErrorEnvelope(error=self.body)

    def response(self) -> Response:
        """The whole answer."""
        return _Told(self)

    def renamed(self, param: str) -> "ApiError":
        """The same error about a field that has another name where the client wrote it."""
        body = self.body
        message = str(self).removeprefix(f"{body['param']}: ")
        if len(message) < len(str(self)):
            message = f"{param}: {message}"
        return ApiError(self.status, message, kind=body["type"], code=body["code"], param=param, headers=self.headers)


class _Told(Response):
    """An error's whole answer. Only as it is sent is it known which API was asked, and so in which envelope."""

    def __init__(self, error: ApiError) -> None:
        super().__init__(status_code=error.status)
        self._error = error

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send it."""
        error = self._error
        scope.setdefault("state", {})["error_code"] = error.name  # for the log
        told = json_response(envelope(scope, error.status, error.body), status=error.status, headers=error.headers)
        await told(scope, receive, send)


def _clip(message: str) -> str:
    return message if len(message) <= MAX_MESSAGE_CHARACTERS else message[:MAX_MESSAGE_CHARACTERS] + "…"


def unsupported(param: str, message: str) -> ApiError:
    """The client asks for what this model or server lacks."""
    return ApiError(400, f"{param}: {message}", code="unsupported_parameter", param=param)


def unavailable(code: str, message: str) -> ApiError:
    """The server can't answer now, and says when to come back."""
    return ApiError(503, message, kind=Kind.SERVER, code=code, headers={"retry-after": str(RETRY_AFTER_SECONDS)})


def failure_response(
    status: int,
    message: str,
    *,
    kind: str,
    code: str | None = None,
    param: str | None = None,
    headers: Mapping[str, str] | None = None,
) -> Response:
    """An error's whole answer, for whatever runs outside the routes."""
    return ApiError(status, message, kind=kind, code=code, param=param, headers=headers).response()


@dataclass(frozen=True, slots=True)
class _Row:
    """`message` None is the error's own."""

    status: int
    kind: Kind
    code: str | None = None
    message: str | None = None


_TABLE: dict[type[EngineError], _Row] = {
    EmptyPrompt: _Row(400, Kind.INVALID_REQUEST),
    UnknownToken: _Row(400, Kind.INVALID_REQUEST),
    ContextTooLong: _Row(400, Kind.INVALID_REQUEST, "context_length_exceeded"),
    PromptError: _Row(400, Kind.INVALID_REQUEST),
    GrammarRefused: _Row(400, Kind.INVALID_REQUEST),
    CompilersBusy: _Row(503, Kind.SERVER, "compilers_busy"),
    GrammarFailed: _Row(400, Kind.INVALID_REQUEST, "grammar_failed"),
    QueueFull: _Row(429, Kind.RATE_LIMIT, "rate_limit_exceeded"),
    SlowReader: _Row(408, Kind.INVALID_REQUEST, "slow_reader"),
    Draining: _Row(503, Kind.SERVER, "draining"),
    EngineStopped: _Row(503, Kind.SERVER, "engine_stopped"),
    # What a step raised may hold anything; it is in the log.
    StepFailed: _Row(500, Kind.SERVER, "step_failed", "the model step failed on this request"),
    EngineError: _Row(500, Kind.SERVER, None, "the engine failed on this request"),
}


def from_engine(error: EngineError, *, param: str | None = None, prompt: str = "prompt") -> ApiError:
    """The table's answer to an error of the engine; `param` is the field that held what is a `prompt` here."""
    row = next(_TABLE[kind] for kind in type(error).__mro__ if kind in _TABLE)
    match error:
        case UnknownToken(field=field) if field != "prompt":
            param = field
        case VariableReserved(name=name):
            param = f"chat_template_kwargs.{name}"
        case GrammarFailed(name=name):
            param = name or None
        case _:
            pass
    return ApiError(
        row.status,
        row.message or _PROMPT.sub(prompt, str(error), count=1),
        kind=row.kind,
        code=row.code,
        param=param if row.status == 400 else None,  # noqa: PLR2004  # 400: the request is at fault, so some field is
        headers=_retry_after(error, row.status),
    )


def _retry_after(error: EngineError, status: int) -> dict[str, str]:
    if isinstance(error, QueueFull):
        return {"retry-after": str(error.retry_after_seconds)}
    return {"retry-after": str(RETRY_AFTER_SECONDS)} if status == 503 else {}  # noqa: PLR2004  # 503: come back later


@contextmanager
def blaming(param: str, *, prompt: str = "prompt") -> Iterator[None]:
    """Turn an error of the engine into the client's, which names the field that held what is a `prompt` here."""
    try:
        yield
    except EngineError as error:
        raise from_engine(error, param=param, prompt=prompt) from error


def install_error_handlers(app: FastAPI) -> None:
    """Give every error that a route or the router raises its answer; an unexpected one passes on."""
    for kind, handler in _HANDLERS.items():
        app.add_exception_handler(kind, handler)


async def _on_api_error(_request: Request, error: Exception) -> Response:
    assert isinstance(error, ApiError)
    return error.response()


async def _on_engine_error(_request: Request, error: Exception) -> Response:
    assert isinstance(error, EngineError)
    return from_engine(error).response()


async def _on_http_exception(request: Request, error: Exception) -> Response:
    """No such path, a wrong method: what Starlette raises, with the headers that it gives."""
    assert isinstance(error, HTTPException)
    headers = {**(error.headers or {})}
    if error.status_code == 405:  # noqa: PLR2004  # 405: the path has other methods
        methods = {*_methods_of(request)} or {*headers.get("Allow", "").split(", ")}
        headers["Allow"] = ", ".join(sorted(methods | ({"HEAD"} if "GET" in methods else set())))
        if request.method == "OPTIONS":
            return Response(status_code=204, headers=headers)
    message, code = {
        404: ("there is nothing at this path", "not_found"),
        405: ("this path does not take this method", "method_not_allowed"),
    }.get(error.status_code, ("the request can't be answered", None))
    return ApiError(error.status_code, message, code=code, headers=headers).response()


def _methods_of(request: Request) -> Iterator[str]:
    """Every method that the path takes by the first of the application's `routes` that fits, and by those like it.

    Where `/responses/{id}` fits what has a route of its own, it says nothing: an id is not meant.
    """
    # A scope of its own: in the request's the router has noted the first route.
    scope = {"type": "http", "method": request.method, "path": request.scope["path"].removeprefix("/v1")}
    fitting = [route for route in getattr(request.app.state, "routes", ()) if route.matches(scope)[0] is not Match.NONE]
    for route in fitting:
        if route.path == fitting[0].path:
            yield from route.methods


async def _on_client_gone(_request: Request, _error: Exception) -> Response:
    return Response(status_code=CLIENT_GONE)


_HANDLERS = {
    ApiError: _on_api_error,
    EngineError: _on_engine_error,
    HTTPException: _on_http_exception,
    ClientDisconnect: _on_client_gone,
}
