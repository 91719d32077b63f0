"""Client: asks a running server, by the standard library's HTTP: what serving needs has no client for it."""

import json
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from typing import Any
from urllib.parse import SplitResult, quote, urlsplit

from server.terminal.events import Received, received
from server.terminal.plain import plain

CONNECT_SECONDS = 10.0  # a server that is there answers at once; how long it thinks is its own affair
MAX_ERROR_BYTES = 64 * 1024
CHAT = "/v1/chat/completions"
WATCH = "/ledger/events"
SILENCE_SECONDS = 60.0  # of a stream that is kept alive: the server is gone, though nobody said so

Json = dict[str, Any]  # JSON by its nature


class ChatError(Exception):
    """Something that a person at the terminal is told in one line, whatever a server put into it."""

    def __init__(self, message: str) -> None:
        super().__init__(plain(message))


class NoServer(ChatError):
    """Nothing answers there."""


class Refused(ChatError):
    """The server answered with an error. `code` is its own name for it."""

    def __init__(self, message: str, *, status: int, code: str | None = None) -> None:
        super().__init__(message)
        self.status, self.code = status, code


class Client:
    """A server's address, and the key that it is asked with.

    Raises:
        ValueError: `url` is no HTTP address.
    """

    def __init__(self, url: str, key: str | None = None) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname or not _is_port(parts):
            raise ValueError(f"{url!r} is no address such as http://127.0.0.1:8000")
        self.url = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"
        self._path = parts.path.rstrip("/").removesuffix("/v1")
        self._make = HTTPSConnection if parts.scheme == "https" else HTTPConnection
        self._host, self._port = parts.hostname, parts.port
        self._headers = {"content-type": "application/json"} | ({"authorization": f"Bearer {key}"} if key else {})

    def models(self) -> list[str]:
        """The names that are served, the model's own first."""
        told = self._told("/v1/models")
        try:
            first, *others = [plain(str(model["id"])) for model in told["data"]]
        except (ValueError, KeyError, TypeError, RecursionError):
            raise self._foreign() from None
        return [first, *others]

    @contextmanager
    def ask(self, body: Json, *, after: str | None = None) -> Iterator[Iterator[Received]]:
        """The events of an answer as they come; with `after` the rest of one, behind that event. Leaving hangs up."""
        headers = {} if after is None else {"last-event-id": after}
        with self._answer("POST", CHAT, body, headers) as answer:
            yield received(_lines(answer))

    @contextmanager
    def watch(self, every: float) -> Iterator[Iterator[Received]]:
        """What the engine does, as events at least so many seconds apart. Leaving hangs up."""
        with self._answer("GET", f"{WATCH}?every={every:g}", silence=SILENCE_SECONDS) as answer:
            yield received(_lines(answer))

    def steps(self, request: str, *, after: int) -> Json:
        """What each step above number `after` did to a request's sequences, as far as that was noted."""
        return self._told(f"/ledger/{quote(request, safe='')}/steps?after={after}", silence=CONNECT_SECONDS)

    def unit(self, unit: int) -> Json:
        """What one unit of the pool holds."""
        return self._told(f"/ledger/units/{unit}", silence=CONNECT_SECONDS)

    def _told(self, path: str, *, silence: float | None = None) -> Json:
        """An object that is there at a path."""
        with self._answer("GET", path, silence=silence) as answer:
            try:
                told = json.load(answer)
            except (ValueError, RecursionError, OSError, HTTPException):
                told = None
        if not isinstance(told, dict):
            raise self._foreign()
        return told

    def _foreign(self) -> NoServer:
        return NoServer(f"what answers at {self.url} does not speak this API")

    @contextmanager
    def _answer(
        self,
        method: str,
        path: str,
        body: Json | None = None,
        headers: Mapping[str, str] | None = None,
        *,
        silence: float | None = None,
    ) -> Iterator[HTTPResponse]:
        connection = self._make(self._host, self._port, timeout=CONNECT_SECONDS)
        try:
            answer = self._send(connection, method, path, body, headers or {}, silence)
            if answer.status != HTTPStatus.OK:
                raise self._refusal(answer)
            yield answer
        finally:
            connection.close()

    def _send(
        self,
        connection: HTTPConnection,
        method: str,
        path: str,
        body: Json | None,
        headers: Mapping[str, str],
        silence: float | None,
    ) -> HTTPResponse:
        content = None if body is None else json.dumps(body)
        try:
            connection.connect()
            assert isinstance(connection.sock, socket.socket)
            connection.sock.settimeout(silence)
            connection.request(method, self._path + path, content, {**self._headers, **headers})
            return connection.getresponse()
        except (OSError, HTTPException, UnicodeError) as error:
            reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
            raise NoServer(f"no server answers at {self.url} ({reason.lower()}); `tidemark serve` starts one") from None

    def _refusal(self, answer: HTTPResponse) -> Refused:
        if answer.status != HTTPStatus.UNAUTHORIZED:
            return _refusal(answer)
        if "authorization" in self._headers:
            why = "the server does not know this key: give another"
        else:
            why = "the server asks for a key: give"
        return Refused(f"{why} --api-key or TIDEMARK_SERVER__API_KEYS", status=answer.status)


def _is_port(parts: SplitResult) -> bool:
    try:
        return parts.port is None or parts.port > 0
    except ValueError:
        return False


def _lines(answer: HTTPResponse) -> Iterator[bytes]:
    """The answer's lines, as far as they come: an answer tells its own end, so a lost connection is no news here."""
    with suppress(OSError, HTTPException):
        while line := answer.readline():
            yield line


def _refusal(answer: HTTPResponse) -> Refused:
    status = answer.status
    try:
        error: Any = json.loads(answer.read(MAX_ERROR_BYTES))["error"]
        message, code = str(error["message"]), error.get("code")
        return Refused(message, status=status, code=code if isinstance(code, str) else None)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, OSError, HTTPException):
        return Refused(f"the server answered {status} {answer.reason}", status=status)
