"""A server whose every answer is written down beforehand, byte by byte."""

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

PATIENCE_SECONDS = 30.0  # far beyond what anything here takes: reached only when something hangs


@dataclass
class Asked:
    """One request as it came."""

    line: str
    headers: dict[str, str]
    body: Any


@dataclass
class Scripted:
    """Answers each connection with the next of `answers`, and hangs up. Keeps what it was asked."""

    url: str
    asked: list[Asked] = field(default_factory=list)


def answer(body: str | bytes, *, status: str = "200 OK", cut: bool = False) -> bytes:
    """A whole answer; one that is cut lacks its end."""
    content = body.encode() if isinstance(body, str) else body
    length = len(content) + (10 if cut else 0)
    return b"HTTP/1.1 %b\r\ncontent-length: %d\r\n\r\n%b" % (status.encode(), length, content)


def as_json(body: object, *, status: str = "200 OK") -> bytes:
    """An answer of JSON."""
    return answer(json.dumps(body), status=status)


def error(message: str, *, status: str, code: str | None = None) -> bytes:
    """A refusal."""
    return as_json({"error": {"message": message, "type": "t", "param": None, "code": code}}, status=status)


MODELS = as_json({"object": "list", "data": [{"id": "org/tiny"}, {"id": "gpt-4o"}]})
USAGE = {
    "prompt_tokens": 20,
    "completion_tokens": 5,
    "prompt_tokens_details": {"cached_tokens": 16},
    "completion_tokens_details": {"accepted_prediction_tokens": 2, "rejected_prediction_tokens": 1},
}


def events(*said: object, first: int = 0, id: str = "chatcmpl-1", done: bool = True) -> str:
    """A stream: texts as chunks, whatever else as it is, and at the end the usage and the mark."""
    bodies = [json.dumps({"choices": [{"delta": {"content": one}}]} if isinstance(one, str) else one) for one in said]
    if done:
        bodies += [json.dumps({"choices": [], "usage": USAGE}), "[DONE]"]
    return "".join(f"id: {id}:{number}\ndata: {body}\n\n" for number, body in enumerate(bodies, first))


@contextmanager
def serving(*answers: bytes) -> Iterator[Scripted]:
    """A server with these answers; what is asked beyond them is not answered."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = Scripted(f"http://127.0.0.1:{listener.getsockname()[1]}")
        thread = threading.Thread(target=_serve, args=(listener, list(answers), server), daemon=True)
        thread.start()
        yield server
        listener.shutdown(socket.SHUT_RDWR)
        thread.join(PATIENCE_SECONDS)


def _serve(listener: socket.socket, answers: list[bytes], server: Scripted) -> None:
    while True:
        try:
            connection, _ = listener.accept()
        except OSError:
            return
        with connection:
            connection.settimeout(PATIENCE_SECONDS)
            server.asked.append(_read(connection))
            if answers:
                connection.sendall(answers.pop(0))


def _read(connection: socket.socket) -> Asked:
    with connection.makefile("rb") as source:
        line = source.readline().decode().strip()
        headers = {}
        while text := source.readline().decode().strip():
            name, _, value = text.partition(": ")
            headers[name.lower()] = value
        content = source.read(int(headers.get("content-length", 0)))
    return Asked(line, headers, json.loads(content) if content else None)
