"""Listen: the socket that is bound before anything else, and the HTTP server that reads from it."""

import contextlib
import math
import os
import socket
from collections.abc import Iterator
from functools import partial

import uvicorn
from starlette.types import ASGIApp

from config.settings import ServerSettings
from server.connection import Connection
from server.logs import Log


def bind(host: str, port: int) -> socket.socket:
    """A socket that listens: connections wait in its backlog until the server reads them."""
    family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
    return socket.create_server((str(address[0]), port), family=family)


def reason_of(error: OSError) -> str:
    """The system's own words; to `strerror` the socket module adds the address, which is said already."""
    if isinstance(error, socket.gaierror) or error.errno is None:
        return str(error.strerror or error)
    return os.strerror(error.errno)


def url_of(listener: socket.socket) -> str:
    """Where the listener is reached."""
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


class HttpServer(uvicorn.Server):
    """uvicorn without signal handlers of its own: who is told to end is the process."""

    def __init__(self, app: ASGIApp, settings: ServerSettings, log: Log) -> None:
        super().__init__(
            uvicorn.Config(
                app,
                http=partial(Connection, log=log),  # type: ignore[arg-type]  # it is only called
                ws="none",
                lifespan="off",
                log_config=None,
                access_log=False,
                proxy_headers=False,
                server_header=False,
                timeout_keep_alive=settings.idle_connection_seconds,
            )
        )

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave signals alone."""
        yield

    def finish_within(self, seconds: float) -> None:
        """Close once the answers under way have been sent, or `seconds` have passed."""
        self.config.timeout_graceful_shutdown = math.ceil(seconds)
        self.should_exit = True
