"""`tidemark chat` as a person at a terminal and as a pipe use it, against a server process."""

import select
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from server.terminal.answers import Answers, Piece
from server.terminal.client import Client
from server.terminal.counts import Counts
from tests.http.processes import PATIENCE_SECONDS, ROOT, ServerProcess
from tests.http.terminals import Terminal, at_terminal


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with ServerProcess("tests.http.scripted", "--api-key", "key") as server, server.ready_client() as client:
        yield str(client.base_url)


def command(url: str, *arguments: str, key: str = "key") -> list[str]:
    return [sys.executable, "-m", "server", "chat", "--url", url, "--api-key", key, *arguments]


def piped(shown: list[str], lines: str = "hello\n") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        shown, check=False, input=lines, cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE_SECONDS
    )


def test_a_pipe_asks_one_question_a_line(url: str) -> None:
    done = piped(command(url, "--max-tokens", "5", "--temperature", "0"), "hello\n\nand\\\nmore?\n")

    assert [len(line) for line in done.stdout.splitlines()] == [5, 5]
    assert (done.returncode, done.stderr) == (0, "")


def test_a_question_that_is_refused_is_exit_1_and_the_others_are_answered(url: str) -> None:
    done = piped(command(url, "--max-tokens", "5"), f"/set stop {'x' * 3000}\nhello\n/set stop none\nhello\n")

    assert len(done.stdout) == 6
    assert done.stderr == "tidemark: stop: must have at most 2048 characters\n"
    assert done.returncode == 1


def test_a_setting_that_is_refused_is_exit_1_and_stays_as_it_was(url: str) -> None:
    done = piped(command(url, "--max-tokens", "5"), "/set temperature 7\nhello\n")

    assert len(done.stdout) == 6
    assert done.stderr == "tidemark: temperature must be a number from 0 to 2, or none\n"
    assert done.returncode == 1


@pytest.mark.parametrize(
    ("arguments", "code", "why"),
    [
        (["--model", "nope"], 1, "no such model"),
        (["--url", "http://127.0.0.1:9"], 1, "no server answers at http://127.0.0.1:9 "),
        (["--url", "nowhere"], 2, "--url: 'nowhere' is no address"),
        (["--config", "/nowhere.toml"], 2, "/nowhere.toml: the settings can't be read"),
    ],
)
def test_what_goes_wrong_at_the_start_is_one_line(url: str, arguments: list[str], code: int, why: str) -> None:
    done = piped(command(url, *arguments))

    assert (done.returncode, done.stdout) == (code, "")
    [line] = done.stderr.splitlines()
    assert why in line


def test_a_wrong_key_is_one_line(url: str) -> None:
    done = piped(command(url, key="wrong"))

    assert done.returncode == 1
    assert (
        done.stderr
        == "tidemark: the server does not know this key: give another --api-key or TIDEMARK_SERVER__API_KEYS\n"
    )


@contextmanager
def cutting(url: str, after: list[int]) -> Iterator[str]:
    """What passes everything on to a server, but cuts its answers, one connection each, after so many bytes."""
    left = list(after)
    there = urlsplit(url)

    def serve(listener: socket.socket) -> None:
        while True:
            try:
                client, _ = listener.accept()
            except OSError:
                return
            # Who leaves with something unread resets the connection, which is an end too.
            with client, socket.create_connection((there.hostname, there.port)) as server, suppress(ConnectionError):
                pass_on(client, server, left.pop(0) if left else None)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve, args=(listener,), daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        listener.shutdown(socket.SHUT_RDWR)
        thread.join(PATIENCE_SECONDS)


def pass_on(client: socket.socket, server: socket.socket, limit: int | None) -> None:
    """Both ways until either side ends, or the server has said so much."""
    passed = 0
    while limit is None or passed < limit:
        for ready in select.select([client, server], [], [], PATIENCE_SECONDS)[0]:
            data = ready.recv(256)
            if not data:
                return
            if ready is server:
                passed += len(data)
                client.sendall(data if limit is None else data[: limit - passed + len(data)])
            else:
                server.sendall(data)


def text_of(parts: Iterable[Piece | Counts]) -> str:
    return "".join(part.text for part in parts if isinstance(part, Piece))


@pytest.mark.parametrize("after", [[900], [900, 700], [3000, 401]])
def test_an_answer_whose_connection_breaks_goes_on_where_it_broke(url: str, after: list[int]) -> None:
    body = {"model": "scripted", "messages": [{"role": "user", "content": "hello"}], "max_tokens": 40, "stream": True}
    body["stream_options"] = {"include_usage": True}

    def ask(address: str) -> list[Piece | Counts]:
        pauses: list[float] = []
        return list(Answers(Client(address, "key"), clock=time.monotonic, pause=pauses.append).ask(body))

    with cutting(url, after) as through:
        parts = ask(through)

    assert text_of(parts) == text_of(ask(url))
    assert isinstance(parts[-1], Counts)
    assert parts[-1].made == 40


@contextmanager
def terminal(url: str, *arguments: str) -> Iterator[tuple[Terminal, subprocess.Popen[bytes]]]:
    with at_terminal(command(url, *arguments)) as opened:
        yield opened


def test_a_person_asks_stops_and_leaves(url: str, tmp_path: Path) -> None:
    with terminal(url, "--max-tokens", "5") as (seen, process):
        assert "scripted at http://127.0.0.1:" in seen.until("> ")
        seen.type("hello\n")
        answered = seen.until("> ")
        seen.type("/set max_tokens 4000\nlonger\n")
        seen.until("longer\r\n")
        seen.until("abc")
        seen.type("\x03")
        stopped = seen.until("> ")
        seen.type("half a line\x03")
        seen.until("> ")
        seen.type(f"/save {tmp_path}/talk.json\n")
        seen.until("> ")
        seen.type("\x04")
        code = process.wait(PATIENCE_SECONDS)

    assert "prompt 5 tokens, 0 cached; answer 5 tokens" in answered
    assert "accepted 0 of 0 predicted; first after " in answered
    assert "stopped" in stopped
    assert "longer" in (tmp_path / "talk.json").read_text()
    assert code == 0
