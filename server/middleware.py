"""Middleware: the body limit, keys, HEAD, and which pages may call. Pure ASGI."""

from collections.abc import Iterable
from hashlib import sha256
from hmac import compare_digest
from typing import TypedDict

from pydantic import SecretStr
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from server.errors import ApiError, Kind, failure_response

_LOCAL_PAGES = r"https?://(localhost|127\.0\.0\.1|\[::1\])(:\d+)?"


class _BodyTooLarge(ApiError):
    """The body that is being received passes the limit."""

    def __init__(self, max_bytes: int) -> None:
        super().__init__(413, f"the body is larger than {max_bytes} bytes", code="request_too_large")


class BodyLimit:
    """Answers 413 to a body over `max_bytes`: before any is read by its declared length, else when that much has come.

    It is the application's read that fails, so that a request with an account is counted there.
    """

    def __init__(self, app: ASGIApp, *, max_bytes: int) -> None:
        self._app = app
        self._max_bytes = max_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Run the rest of the application with a counted body."""
        if scope["type"] == "http":
            await self._count(scope, receive, send)
        else:
            await self._app(scope, receive, send)

    async def _count(self, scope: Scope, receive: Receive, send: Send) -> None:
        declared, received = _declared_bytes(scope), 0
        refused: _BodyTooLarge | None = None
        started = False

        async def receive_counted() -> Message:
            nonlocal received, refused
            if declared <= self._max_bytes:
                message = await receive()
                received += len(message.get("body", b""))
            if max(declared, received) > self._max_bytes:
                refused = _BodyTooLarge(self._max_bytes)
                raise refused
            return message

        async def send_unless_refused(message: Message) -> None:
            # Whatever the application makes of the error that ended its read, the answer is 413.
            nonlocal started
            if started or refused is None:
                started = True
                await send(message)

        try:
            await self._app(scope, receive_counted, send_unless_refused)
        except _BodyTooLarge:
            if started:
                raise
        if refused is not None and not started:
            await refused.response()(scope, receive, send)


def _declared_bytes(scope: Scope) -> int:
    length = Headers(scope=scope).get("content-length", "0")
    return int(length) if length.isdecimal() else 0


class Keys:
    """Asks for one of `keys` on every path but the open ones; no keys, no questions.

    All keys are compared, by digest and in constant time, so that timing tells nothing about them.
    """

    def __init__(self, app: ASGIApp, *, keys: Iterable[SecretStr], open_paths: frozenset[str]) -> None:
        self._app = app
        self._digests = [sha256(key.get_secret_value().encode()).digest() for key in keys]
        self._open_paths = open_paths

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Run the rest of the application if the request may pass."""
        if scope["type"] != "http" or not self._digests or self._is_open(scope) or self._admits(scope):
            await self._app(scope, receive, send)
            return
        response = failure_response(
            401,
            "no API key, or a wrong one: send `Authorization: Bearer KEY`",
            kind=Kind.INVALID_REQUEST,
            code="invalid_api_key",
            headers={"www-authenticate": "Bearer"},
        )
        await response(scope, receive, send)

    def _is_open(self, scope: Scope) -> bool:
        return scope["method"] == "OPTIONS" or scope["path"].removeprefix("/v1") in self._open_paths

    def _admits(self, scope: Scope) -> bool:
        """Whether it has a key; whose it is goes on with the request."""
        owner, number = "", None
        for given in _given_keys(scope):
            digest = sha256(given).digest()
            for place, known in enumerate(self._digests, start=1):
                if compare_digest(digest, known):
                    owner, number = digest.hex(), place
        scope.setdefault("state", {}).update(owner=owner, key_number=number)
        return bool(owner)


def owner_of(request: Request) -> str:
    """Whose key a request came with: what it makes is theirs alone. Where no keys are asked for all are one owner."""
    owner = getattr(request.state, "owner", "")
    assert isinstance(owner, str)
    return owner


def _given_keys(scope: Scope) -> list[bytes]:
    given = []
    for name, value in scope["headers"]:
        scheme, _, rest = value.partition(b" ")
        if name == b"authorization" and scheme.lower() == b"bearer":
            given.append(rest.strip())
        elif name == b"x-api-key":
            given.append(value.strip())
    return given


class Heads:
    """Answers HEAD as GET is answered, without the body. With the headers all is said: a stream ends as if left."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Run the rest of the application for a GET."""
        if scope["type"] != "http" or scope["method"] != "HEAD":
            await self._app(scope, receive, send)
            return

        async def send_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                await send(message)
                await send({"type": "http.response.body", "body": b"", "more_body": False})

        # Without extensions: the connection, whose answer has its end, is not to be broken off.
        await self._app({**scope, "method": "GET", "extensions": {}}, receive, send_headers)


class TypedBodies:
    """Refuses a page's body that has no type.

    A browser asks first before it sends JSON to another site, and `cors_options` answers. What has no
    type it sends without asking, so that any page could put this server to work.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Run the rest of the application unless a page sends something without a type."""
        if scope["type"] != "http" or scope["method"] != "POST" or not _is_untyped_from_a_page(Headers(scope=scope)):
            await self._app(scope, receive, send)
            return
        message = "the content type must be application/json"
        response = failure_response(415, message, kind=Kind.INVALID_REQUEST, code="unsupported_media_type")
        await response(scope, receive, send)


def _is_untyped_from_a_page(headers: Headers) -> bool:
    return "origin" in headers and "content-type" not in headers


class CorsOptions(TypedDict):
    """What Starlette's CORSMiddleware is told."""

    allow_origins: list[str]
    allow_origin_regex: str | None
    allow_methods: list[str]
    allow_headers: list[str]
    expose_headers: list[str]
    allow_private_network: bool


def cors_options(origins: Iterable[str]) -> CorsOptions:
    """Which pages may call: full origins, `localhost` for any port of this machine, `*` for all."""
    named = list(origins)
    return CorsOptions(
        allow_origins=[origin for origin in named if origin != "localhost"],
        allow_origin_regex=_LOCAL_PAGES if "localhost" in named else None,
        allow_methods=["GET", "HEAD", "POST", "DELETE", "OPTIONS"],
        allow_headers=["*"],
        expose_headers=["x-request-id", "request-id", "openai-processing-ms", "retry-after"],
        allow_private_network=True,  # an allowed page may be on the internet and this server on the page's own machine
    )
