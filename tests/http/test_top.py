"""`tidemark top` as a person at a terminal and as a pipe use it, against a server process."""

import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from signal import SIGHUP, SIGTERM, Signals

import httpx
import pytest

from tests.http.processes import PATIENCE_SECONDS, ROOT, ServerProcess
from tests.http.terminals import at_terminal


def command(url: str, *arguments: str, key: str = "key") -> list[str]:
    return [sys.executable, "-m", "server", "top", "--url", url, "--api-key", key, *arguments]


def run(shown: list[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(shown, check=False, cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE_SECONDS)


@pytest.fixture(scope="module")
def hold(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("hold") / "hold"


@pytest.fixture(scope="module")
def server(hold: Path) -> Iterator[httpx.Client]:
    """A server whose steps end as long as `hold` is not there."""
    flags = ("--api-key", "key", "--hold", str(hold), "--max-step-positions", "64")
    with ServerProcess("tests.http.scripted", *flags) as process, process.ready_client() as client:
        client.headers["authorization"] = "Bearer key"
        yield client


@contextmanager
def streaming(client: httpx.Client, hold: Path) -> Iterator[None]:
    """A request that runs, and is held, while the block lasts."""
    body = {"model": "scripted", "messages": [{"role": "user", "content": "hello"}], "max_tokens": 3000}
    hold.write_text("")
    thread = threading.Thread(target=lambda: client.post("/v1/chat/completions", json=body))
    thread.start()
    try:
        yield
    finally:
        hold.unlink()
        thread.join(PATIENCE_SECONDS)


def test_a_pipe_gets_one_snapshot(server: httpx.Client) -> None:
    done = run(command(str(server.base_url)))

    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert lines[0].startswith("scripted  ")
    assert lines[0].split("  ")[2] == "ready"
    assert "of 4,096 blocks" in lines[2]


def test_a_program_gets_the_snapshot_as_json(server: httpx.Client) -> None:
    done = run(command(str(server.base_url), "--json"))

    assert json.loads(done.stdout)["pool"]["capacity"] == 4096


@pytest.mark.parametrize(
    ("arguments", "code", "why"),
    [
        (["--url", "http://127.0.0.1:9"], 1, "no server answers at http://127.0.0.1:9 "),
        (["--url", "nowhere"], 2, "--url: 'nowhere' is no address"),
        (["--api-key", "ké"], 2, "server.api_keys: must be a list of keys of visible ASCII characters, without spaces"),
        (["--api-key", "wrong"], 1, "the server does not know this key: give another --api-key"),
    ],
)
def test_what_goes_wrong_at_the_start_is_one_line(
    server: httpx.Client, arguments: list[str], code: int, why: str
) -> None:
    key = [] if arguments[0] == "--api-key" else ["--api-key", "key"]
    done = run([sys.executable, "-m", "server", "top", "--url", str(server.base_url), *arguments, *key])

    assert (done.returncode, done.stdout) == (code, "")
    [line] = done.stderr.splitlines()
    assert why in line


def test_a_person_watches_a_request_and_leaves(server: httpx.Client, hold: Path) -> None:
    with (
        streaming(server, hold),
        at_terminal(
            ["env", "-u", "COLUMNS", "-u", "LINES", "TERM=xterm", "NO_COLOR=1", *command(str(server.base_url))]
        ) as (seen, process),
    ):
        seen.resize(130, 40)
        seen.until("running 1 of 16")
        seen.until("by age)")
        seen.type("s")
        seen.until("by length)")
        seen.type("p")
        seen.until("paused; p goes on")
        seen.type("p")
        seen.until("p pauses")
        seen.resize(30, 20)
        seen.until("16  wai…")
        seen.type("q")
        left = seen.until("\x1b[?1049l")
        code = process.wait(PATIENCE_SECONDS)

    assert code == 0
    assert "Traceback" not in left


def test_a_person_opens_a_request_and_looks_at_the_map(server: httpx.Client, hold: Path) -> None:
    with (
        streaming(server, hold),
        at_terminal(["env", "TERM=xterm", "NO_COLOR=1", "COLUMNS=130", "LINES=30", *command(str(server.base_url))]) as (
            seen,
            process,
        ),
    ):
        seen.until("running 1 of 16")
        seen.type("\x1b[B")
        seen.until("> chatcmpl-")
        seen.type("\r")
        seen.until("admitted, nothing found in the cache")
        seen.type("\x1b")
        seen.until("esc lets go")
        seen.type("m")
        seen.until("a chatcmpl-")
        seen.until("0  of 0 to 1")
        seen.type("\x1b[C")
        seen.until("2  of 2 to 3")
        seen.type("q")
        seen.until("\x1b[?1049l")
        code = process.wait(PATIENCE_SECONDS)

    assert code == 0


def test_an_interrupt_leaves_too(server: httpx.Client) -> None:
    with at_terminal(["env", "TERM=xterm", *command(str(server.base_url))]) as (seen, process):
        seen.until("q leaves")
        seen.type("\x03")
        code = process.wait(PATIENCE_SECONDS)

    assert code == 0


@pytest.mark.parametrize("number", [SIGTERM, SIGHUP])
@pytest.mark.usefixtures("hangups_heard")
def test_a_signal_leaves_the_terminal_as_it_was(server: httpx.Client, number: Signals) -> None:
    with at_terminal(["env", "TERM=xterm", *command(str(server.base_url))]) as (seen, process):
        seen.until("\x1b[?1049h")
        seen.until("q leaves")
        watched = seen.echoes()
        process.send_signal(number)
        seen.until("\x1b[?25h\x1b[?1049l")
        code = process.wait(PATIENCE_SECONDS)
        left = seen.echoes()

    assert (watched, left) == (False, True)
    assert code == 128 + number


def test_a_server_that_starts_again_is_watched_again() -> None:
    with ServerProcess("tests.http.scripted", "--port", "0") as first, first.ready_client() as client:
        port = str(client.base_url.port)
        with at_terminal(["env", "TERM=xterm", "COLUMNS=120", "LINES=40", *command(str(client.base_url))]) as (seen, _):
            seen.until("q leaves")
            first.send(SIGTERM)
            first.exit_code()
            seen.until("no server answers at")
            with ServerProcess("tests.http.scripted", "--port", port) as second, second.ready_client():
                seen.until("ready")
                seen.type("q")
                seen.until("\x1b[?1049l")


def test_a_terminal_that_has_no_bars_is_drawn_without(server: httpx.Client) -> None:
    with at_terminal(["env", "TERM=xterm", "PYTHONIOENCODING=ascii", *command(str(server.base_url))]) as (
        seen,
        process,
    ):
        seen.until("q leaves")
        seen.type("q")
        seen.until("\x1b[?1049l")
        code = process.wait(PATIENCE_SECONDS)

    assert code == 0
