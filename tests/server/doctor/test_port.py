import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from server.doctor.port import PortState, look_at
from tests.http.processes import PATIENCE_SECONDS

TAKEN = "Address already in use"


@contextmanager
def answering(body: bytes) -> Iterator[tuple[int, list[bytes]]]:
    """A program that answers one request, and keeps it."""
    heard: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def answer() -> None:
            connection, _ = listener.accept()
            with connection:
                heard.append(connection.recv(4096))
                connection.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%b" % (len(body), body))

        thread = threading.Thread(target=answer, daemon=True)
        thread.start()
        yield listener.getsockname()[1], heard
        thread.join(PATIENCE_SECONDS)


def test_a_free_port_is_free_and_stays_so() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]

    assert [look_at("127.0.0.1", port, None) for _ in range(2)] == [PortState()] * 2


def test_a_server_of_ours_is_known_by_its_version() -> None:
    with answering(b'{"version": "9.9"}') as (port, heard):
        assert look_at("127.0.0.1", port, "key") == PortState(TAKEN, "9.9")
    assert b"authorization: Bearer key" in heard[0]


@pytest.mark.parametrize("body", [b"hello", b"[]", b'{"version": 3}', b"{}", b"[" * 4096, b'{"version": "\\u001b[2J"}'])
def test_another_program_is_known_by_the_port_alone(body: bytes) -> None:
    with answering(body) as (port, heard):
        assert look_at("127.0.0.1", port, None) == PortState(TAKEN)
    assert b"authorization" not in heard[0]


def test_a_host_that_is_not_here_is_told() -> None:
    assert look_at("nowhere.invalid", 80, None).fault is not None
