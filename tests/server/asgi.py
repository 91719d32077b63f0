"""Small ASGI applications, and a client for them."""

from collections.abc import AsyncIterator, Awaitable, Callable

import httpx
from starlette.types import ASGIApp, Message, Receive, Scope, Send

Endpoint = Callable[[Scope, Receive, Send], Awaitable[None]]


def client_of(app: ASGIApp) -> httpx.AsyncClient:
    """A client whose requests `app` answers; an exception that leaves the application reaches the test."""
    return httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://test")


async def hello(_scope: Scope, _receive: Receive, send: Send) -> None:
    """Answer 200 without reading the body."""
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"hello"})


async def length(_scope: Scope, receive: Receive, send: Send) -> None:
    """Answer with the body's length."""
    size, more = 0, True
    while more:
        message = await receive()
        size += len(message.get("body", b""))
        more = message.get("more_body", False)
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": str(size).encode()})


async def in_pieces(*pieces: bytes) -> AsyncIterator[bytes]:
    """A body without a declared length."""
    for piece in pieces:
        yield piece


async def call(app: ASGIApp, scope: Scope) -> list[Message]:
    """What `app` sends for a GET with `scope`'s fields, as messages."""
    sent: list[Message] = []

    async def receive() -> Message:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Message) -> None:
        sent.append(message)

    await app({"type": "http", "method": "GET", "path": "/", "headers": [], **scope}, receive, send)
    return sent
