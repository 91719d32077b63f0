"""Clients of the whole application: within this process, and over a real socket."""

import asyncio
import logging
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import orjson
from fastapi import FastAPI

from server.app import create_app
from server.exchange import Tracing
from server.listen import HttpServer, bind
from server.logs import Log
from server.service import Service

QUIET = Log(logging.getLogger("tidemark.tests"))


def app_of(service: Service, log: Log = QUIET, tracing: Tracing | None = None) -> FastAPI:
    """The whole application over a service."""
    return create_app(service.settings, service, log=log, tracing=tracing)


def client_of(service: Service, log: Log = QUIET, tracing: Tracing | None = None) -> httpx.AsyncClient:
    """A client that reads each answer once it is complete."""
    transport = httpx.ASGITransport(app_of(service, log, tracing))
    return httpx.AsyncClient(transport=transport, base_url="http://test")


@asynccontextmanager
async def listening(service: Service, log: Log = QUIET, *, send_buffer_bytes: int | None = None) -> AsyncIterator[str]:
    """A real server on a free port, and its URL. What the kernel holds of each answer can be bounded."""
    listener = bind("127.0.0.1", 0)
    if send_buffer_bytes is not None:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, send_buffer_bytes)  # connections inherit it
    server = HttpServer(app_of(service, log), service.settings.server, log)
    async with asyncio.TaskGroup() as group:
        group.create_task(server.serve(sockets=[listener]))
        try:
            async with service.background.running():
                yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            server.finish_within(1)


Json = dict[str, Any]  # JSON by its nature


def frames_of(body: str) -> list[dict[str, str]]:
    """The fields of every event, in order."""
    frames = body.split("\n\n")
    assert frames.pop() == "", "every event ends with an empty line"
    return [dict(_field(line) for line in frame.split("\n")) for frame in frames if not frame.startswith(":")]


def _field(line: str) -> tuple[str, str]:
    name, _, value = line.partition(": ")
    return name, value


def events_of(body: str) -> list[str]:
    """The data of every event, in order."""
    return [frame["data"] for frame in frames_of(body)]


def chunks_of(body: str) -> list[Json]:
    """The JSON of every event but the last, which is the mark of the end."""
    *chunks, done = events_of(body)
    assert done == "[DONE]"
    return [orjson.loads(chunk) for chunk in chunks]
