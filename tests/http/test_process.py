"""The process from the outside: signals, exit codes, and what it says and answers meanwhile."""

import json
import socket
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from signal import SIG_IGN, SIGHUP, SIGINT, SIGTERM, Signals

import httpx
import pytest

from tests.hangups import hangups
from tests.http.processes import PATIENCE_SECONDS, ROOT, ServerProcess

SCRIPTED = "tests.http.scripted"
HALF_A_REQUEST = (
    b"POST /v1/completions HTTP/1.1\r\nhost: a\r\ncontent-type: application/json\r\ncontent-length: 999\r\n\r\n"
)


@pytest.fixture
def hold(tmp_path: Path) -> Path:
    """While this file is there the scripted model takes no step."""
    path = tmp_path / "hold"
    path.touch()
    return path


def ask(max_tokens: int, *, stream: bool) -> dict[str, object]:
    return {"model": "scripted", "prompt": "hi", "max_tokens": max_tokens, "stream": stream}


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False)


def events(lines: Iterator[str]) -> Iterator[str]:
    return (line.removeprefix("data: ") for line in lines if line.startswith("data: "))


def first_text(lines: Iterator[str]) -> str:
    return str(json.loads(next(events(lines)))["choices"][0]["text"])


def rest_of(lines: Iterator[str]) -> list[str]:
    return list(events(lines))


def wait_for_refusal(client: httpx.Client) -> httpx.Response:
    """What /ready says once it no longer says yes."""
    while (answer := client.get("/ready")).status_code == 200:
        pass
    return answer


def test_a_signal_lets_running_streams_finish_and_refuses_new_requests(hold: Path) -> None:
    with (
        ServerProcess(SCRIPTED, "--hold", str(hold), "--free-steps", "2") as server,
        server.ready_client() as client,
        client.stream("POST", "/v1/completions", json=ask(6, stream=True)) as stream,
    ):
        lines = stream.iter_lines()
        text = first_text(lines)

        server.send(SIGTERM)
        ready = wait_for_refusal(client)
        refused = client.post("/v1/completions", json=ask(1, stream=False))
        alive = client.get("/health")
        hold.unlink()
        rest = rest_of(lines)
        code = server.exit_code()

    assert ready.status_code == refused.status_code == 503
    assert ready.json()["error"]["code"] == refused.json()["error"]["code"] == "draining"
    assert "retry-after" in refused.headers
    assert alive.status_code == 200
    assert rest[-1] == "[DONE]"
    assert text + "".join(json.loads(event)["choices"][0]["text"] for event in rest[:-1]) == "cdefgh"
    assert code == 0
    assert "exit_code=0" in server.lines[-1]


def test_a_watcher_sees_the_drain_to_its_end_and_keeps_nobody_waiting(hold: Path) -> None:
    with (
        ServerProcess(SCRIPTED, "--hold", str(hold), "--free-steps", "2") as server,
        server.ready_client() as client,
        client.stream("GET", "/ledger/events?every=0.2") as watch,
        client.stream("POST", "/v1/completions", json=ask(6, stream=True)) as stream,
    ):
        watched, lines = events(watch.iter_lines()), stream.iter_lines()
        first_text(lines)

        server.send(SIGTERM)
        while json.loads(next(watched))["server"] != "draining":
            pass
        hold.unlink()
        *_, last, end = watched
        rest = rest_of(lines)
        code = server.exit_code()

    assert json.loads(last)["sequences"] == []
    assert json.loads(end) == {"reason": "draining"}
    assert rest[-1] == "[DONE]"
    assert code == 0


def test_a_watcher_that_looks_once_a_minute_keeps_no_server_from_ending() -> None:
    with (
        ServerProcess(SCRIPTED) as server,
        server.ready_client() as client,
        client.stream("GET", "/ledger/events?every=60") as watch,
    ):
        watched = events(watch.iter_lines())
        first = json.loads(next(watched))

        server.send(SIGTERM)
        *_, end = watched
        code = server.exit_code()

    assert first["whole"]
    assert json.loads(end) == {"reason": "draining"}
    assert code == 0


def test_what_is_not_finished_by_the_limit_ends_with_an_error_event() -> None:
    endless = ask(60_000, stream=True)
    with (
        ServerProcess(SCRIPTED, "--server-drain-seconds", "0.2") as server,
        server.ready_client() as client,
        client.stream("POST", "/v1/completions", json=endless) as stream,
    ):
        lines = stream.iter_lines()
        first_text(lines)

        server.send(SIGTERM)
        rest = rest_of(lines)
        code = server.exit_code()

    error = json.loads(rest[-1])["error"]
    assert (error["type"], error["code"]) == ("server_error", "engine_stopped")
    assert code == 0
    assert not any("level=error" in line for line in server.lines), server.lines


def test_a_whole_answer_that_is_not_finished_by_the_limit_is_503_and_says_when_to_come_back(hold: Path) -> None:
    held = ("--hold", str(hold), "--server-drain-seconds", "0")
    with (
        ServerProcess(SCRIPTED, *held) as server,
        server.ready_client() as client,
        ThreadPoolExecutor(1) as other,
    ):
        asked = other.submit(client.post, "/v1/completions", json=ask(6, stream=False))
        while '"state":"running"' not in client.get("/ledger").text:
            pass

        server.send(SIGTERM)
        server.said("event=draining unfinished=1")
        hold.unlink()
        answer = asked.result()
        code = server.exit_code()

    assert answer.status_code == 503
    assert answer.json()["error"]["code"] == "engine_stopped"
    assert answer.headers["retry-after"]
    assert code == 0


@contextmanager
def streaming(hold: Path) -> Iterator[tuple[ServerProcess, httpx.Client, Iterator[str]]]:
    """A server, a client of it, and what is left of a stream that has begun and is held."""
    with (
        ServerProcess(SCRIPTED, "--hold", str(hold), "--free-steps", "1") as server,
        server.ready_client() as client,
        client.stream("POST", "/v1/completions", json=ask(6, stream=True)) as stream,
    ):
        lines = stream.iter_lines()
        first_text(lines)
        yield server, client, lines


@pytest.mark.parametrize("number", [SIGTERM, SIGINT, SIGHUP])
@pytest.mark.usefixtures("hangups_heard")
def test_a_second_signal_ends_the_process_at_once(hold: Path, number: Signals) -> None:
    with streaming(hold) as (server, _, _):
        server.send(SIGTERM)
        server.said("event=draining unfinished=1")
        server.send(number)
        code = server.exit_code()

    assert code == 128 + number


@pytest.mark.usefixtures("hangups_heard")
def test_a_terminal_that_closes_and_says_so_twice_lets_running_streams_finish(hold: Path) -> None:
    with streaming(hold) as (server, client, lines):
        server.send(SIGHUP)
        server.said("event=ending signal=SIGHUP")
        server.said("event=draining unfinished=1")
        server.send(SIGHUP)
        ready = wait_for_refusal(client)
        hold.unlink()
        rest = rest_of(lines)
        code = server.exit_code()

    assert ready.json()["error"]["code"] == "draining"
    assert rest[-1] == "[DONE]"
    assert code == 0


@pytest.mark.usefixtures("hangups_heard")
def test_after_a_terminal_has_closed_another_signal_ends_the_process_at_once(hold: Path) -> None:
    with streaming(hold) as (server, _, _):
        server.send(SIGHUP)
        server.said("event=draining unfinished=1")
        server.send(SIGTERM)
        code = server.exit_code()

    assert code == 128 + SIGTERM


def test_under_nohup_a_terminal_that_closes_ends_nothing() -> None:
    with hangups(SIG_IGN), ServerProcess(SCRIPTED) as server, server.ready_client():
        server.send(SIGHUP)
        server.send(SIGTERM)
        code = server.exit_code()

    assert code == 0
    assert not any("SIGHUP" in line for line in server.lines), server.lines


def test_an_idle_server_ends_on_an_interrupt_with_nothing_but_its_own_lines() -> None:
    with ServerProcess(SCRIPTED) as server, server.ready_client() as client:
        client.get("/health")  # its connection stays open

        server.send(SIGINT)
        code = server.exit_code()

    assert code == 0
    assert all("tidemark: " in line or "event=" in line for line in server.lines), server.lines
    assert not any("level=error" in line for line in server.lines), server.lines


@pytest.mark.parametrize("load", ["works", "hangs"])
def test_a_client_that_never_sends_the_rest_does_not_keep_the_process(load: str) -> None:
    with ServerProcess(SCRIPTED, "--load", load, "--server-drain-seconds", "0") as server, server.client() as client:
        client.get("/health")
        with socket.create_connection((client.base_url.host, client.base_url.port or 0)) as half:
            half.sendall(HALF_A_REQUEST)
            client.get("/health")  # answered after the half request was read

            server.send(SIGTERM)
            code = server.exit_code()

    assert code == 0
    assert not any("traceback" in line for line in server.lines), server.lines


def test_a_client_that_never_reads_does_not_keep_the_process() -> None:
    name = "m" * 40_000  # stands in every event, so that few events fill the socket's buffers
    small = ("--engine-max-buffered-deltas", "4", "--server-drain-seconds", "0.1")
    with (
        ServerProcess(SCRIPTED, "--model-name", name, *small) as server,
        server.ready_client() as client,
        socket.create_connection((client.base_url.host, client.base_url.port or 0)) as deaf,
    ):
        body = json.dumps({**ask(60_000, stream=True), "model": name}).encode()
        deaf.sendall(HALF_A_REQUEST.replace(b": 999", b": %d" % len(body)) + body)
        while '"state":"paused"' not in client.get("/ledger").text:
            pass  # until the stream is full to the brim

        server.send(SIGTERM)
        code = server.exit_code()

    assert code == 0
    assert not any("traceback" in line for line in server.lines), server.lines


def test_while_the_model_loads_it_answers_and_says_to_come_back() -> None:
    with ServerProcess(SCRIPTED, "--load", "hangs") as server, server.client() as client:
        answers = {path: client.get(path) for path in ("/v1/models", "/ready", "/ledger", "/health", "/metrics")}
        completion = client.post("/v1/completions", json=ask(1, stream=True))

        server.send(SIGTERM)
        code = server.exit_code()

    statuses = {path: answer.status_code for path, answer in answers.items()}
    assert statuses == {"/v1/models": 503, "/ready": 503, "/ledger": 503, "/health": 200, "/metrics": 200}
    assert completion.status_code == 503
    assert completion.headers["retry-after"]
    assert completion.json()["error"]["code"] == "model_loading"
    assert any(line == "tidemark: reading the script" for line in server.lines)
    assert code == 0


def test_a_model_that_can_not_be_loaded_is_one_line_and_exit_1() -> None:
    with ServerProcess(SCRIPTED, "--load", "fails") as server:
        code = server.exit_code()

    assert code == 1
    assert [line for line in server.lines if "can't serve" in line] == [
        "tidemark: can't serve scripted: there is no script at all"
    ]
    assert not any("traceback" in line.lower() for line in server.lines)


def test_a_dead_engine_ends_its_streams_and_the_process() -> None:
    with (
        ServerProcess(SCRIPTED, "--dies-at", "3") as server,
        server.ready_client() as client,
        client.stream("POST", "/v1/completions", json=ask(9, stream=True)) as stream,
    ):
        rest = rest_of(stream.iter_lines())
        code = server.exit_code()

    assert json.loads(rest[-1])["error"]["code"] == "engine_stopped"
    assert code == 1
    (line,) = [line for line in server.lines if "level=error" in line]
    assert "event=engine_died traceback=" in line
    assert "the worker is gone" in line


def test_a_port_in_use_is_one_line_and_exit_1() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]

        done = run(SCRIPTED, "--port", str(port))

    assert done.returncode == 1
    assert done.stderr == f"tidemark: can't listen on 127.0.0.1 port {port}: Address already in use\n"


def test_an_address_that_is_not_ours_is_one_line_and_exit_1() -> None:
    done = run(SCRIPTED, "--host", "no.such.host.invalid")

    assert done.returncode == 1
    assert len(done.stderr.splitlines()) == 1
    assert done.stderr.startswith("tidemark: can't listen on no.such.host.invalid")


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["serve", "model", "--port", "70000"], "server.port"),
        (["serve", "model", "--block-size", "-1"], "block-size"),
        (["serve"], "model.path"),
        (["serve", "model", "--config", ""], "tidemark: --config: must be the path of a TOML file, got ''\n"),
        (["trace", "hi"], "model.path"),
        (["trace", "hi", "--max-tokens", "0"], "--max-tokens"),
        (["chat", "--temperature", "9"], "argument --temperature: must be a number from 0 to 2, or none, got '9'\n"),
        (
            ["chat", "--max-tokens", "1.5"],
            "argument --max-tokens: must be an integer of at least 1, or none, got '1.5'\n",
        ),
        ([], "COMMAND"),
    ],
)
def test_a_wrong_command_line_names_what_is_wrong_and_exits_2(arguments: list[str], named: str) -> None:
    done = run("server", *arguments)

    assert done.returncode == 2
    assert named in done.stderr
    assert done.stdout == ""
    assert "Traceback" not in done.stderr


def test_the_configuration_is_printed_and_nothing_is_served() -> None:
    done = run("server", "serve", "a-model", "--port", "1234", "--print-config")

    assert done.returncode == 0
    assert 'path = "a-model"' in done.stdout
    assert "port = 1234" in done.stdout
    assert done.stderr == ""


@pytest.mark.parametrize("arguments", [["version"], ["--version"]])
def test_it_tells_its_version(arguments: list[str]) -> None:
    done = run("server", *arguments)

    assert done.returncode == 0
    assert done.stdout.startswith("tidemark 0.")


@pytest.mark.parametrize("command", [[], ["serve"], ["trace"]])
def test_it_helps(command: list[str]) -> None:
    done = run("server", *command, "--help")

    assert done.returncode == 0
    assert "usage: tidemark" in done.stdout


def test_a_restart_loses_no_response_and_fails_what_ran(tmp_path: Path, hold: Path) -> None:
    store = tmp_path / "responses.db"
    flags = ("--server-store-path", str(store), "--hold", str(hold), "--free-steps", "4", "--server-drain-seconds", "0")
    asked = {"model": "scripted", "input": "hi", "max_output_tokens": 3}
    with ServerProcess(SCRIPTED, *flags) as server, server.ready_client() as client:
        done = client.post("/v1/responses", json=asked).json()
        running = client.post("/v1/responses", json=asked | {"background": True, "max_output_tokens": 400}).json()
        while client.get(f"/v1/responses/{running['id']}").json()["status"] == "queued":
            pass
        server._process.kill()
        server._process.wait()

    with ServerProcess(SCRIPTED, "--server-store-path", str(store)) as server, server.ready_client() as client:
        kept = client.get(f"/v1/responses/{done['id']}").json()
        lost = client.get(f"/v1/responses/{running['id']}").json()
        after = client.post("/v1/responses", json=asked | {"previous_response_id": done["id"]})

    assert kept == done
    assert (lost["status"], lost["error"]["code"]) == ("failed", "server_error")
    assert after.status_code == 200


def test_a_server_that_ends_fails_what_runs_in_the_background(tmp_path: Path, hold: Path) -> None:
    store = tmp_path / "responses.db"
    flags = ("--server-store-path", str(store), "--hold", str(hold), "--free-steps", "2", "--server-drain-seconds", "0")
    asked = {"model": "scripted", "input": "hi", "max_output_tokens": 400, "background": True}
    with ServerProcess(SCRIPTED, *flags) as server, server.ready_client() as client:
        running = client.post("/v1/responses", json=asked).json()
        while client.get(f"/v1/responses/{running['id']}").json()["status"] == "queued":
            pass
        server.send(SIGTERM)
        server.said("event=ending")
        hold.unlink()
        code = server.exit_code()

    with ServerProcess(SCRIPTED, "--server-store-path", str(store)) as server, server.ready_client() as client:
        ended = client.get(f"/v1/responses/{running['id']}").json()

    assert code == 0
    assert (ended["status"], ended["output"][0]["status"]) == ("failed", "incomplete")
    assert "the engine stopped" in ended["error"]["message"]


def test_a_store_that_can_t_be_opened_is_said_and_ends_the_process(tmp_path: Path) -> None:
    done = run(SCRIPTED, "--server-store-path", str(tmp_path / "nowhere" / "responses.db"))

    assert done.returncode == 1
    assert done.stderr.startswith("tidemark: can't keep responses in ")
    assert "Traceback" not in done.stderr
