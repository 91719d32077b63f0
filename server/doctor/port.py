"""Port: tries whether an address can be listened on, and asks who does where it can't."""

import json
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException
from socket import socket

from config.client import EVERY_INTERFACE
from server.listen import bind, reason_of

ANSWER_SECONDS = 2.0
MAX_BYTES = 4096


@dataclass(frozen=True, slots=True)
class PortState:
    """`fault` is why it can't be listened on; `version` is Tidemark's, where it is what listens."""

    fault: str | None = None
    version: str | None = None


def look_at(host: str, port: int, key: str | None, *, listen: Callable[[str, int], socket] = bind) -> PortState:
    """Listen for a moment, or say why that fails and who answers, to this key."""
    try:
        listen(host, port).close()
    except OSError as error:
        return PortState(reason_of(error), _version_at(EVERY_INTERFACE.get(host, host), port, key))
    return PortState()


def _version_at(host: str, port: int, key: str | None) -> str | None:
    connection = HTTPConnection(host, port, timeout=ANSWER_SECONDS)
    with closing(connection), suppress(OSError, HTTPException, ValueError, AttributeError, RecursionError):
        connection.request("GET", "/version", headers={"authorization": f"Bearer {key}"} if key else {})
        answer = json.loads(connection.getresponse().read(MAX_BYTES))
        version = answer.get("version")
        return version if isinstance(version, str) and version.isprintable() else None
    return None
