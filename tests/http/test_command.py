"""`tidemark` as a user runs it, over a tiny real model."""

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from signal import SIGINT, SIGTERM

import httpx
import pytest

from tests.http.processes import PATIENCE_SECONDS, ROOT, ServerProcess
from tests.models.support import every_kernels
from tests.tiny import make_tiny_model_folder

FASTEST = str(every_kernels()[-1])


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models") / "tiny"
    folder.mkdir()
    make_tiny_model_folder(folder)
    return folder


@pytest.fixture(scope="module")
def client(model: Path) -> Iterator[httpx.Client]:
    with ServerProcess("server", "serve", str(model), "--port", "0", "--num-blocks", "64") as server:
        with server.ready_client() as client:
            yield client
        server.send(SIGTERM)
        assert server.exit_code() == 0


def tidemark(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "server", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False)


def chat(text: str, **fields: object) -> dict[str, object]:
    return {"model": "tiny", "messages": [{"role": "user", "content": text}], "max_tokens": 6, "seed": 1, **fields}


def is_ready(client: httpx.Client) -> bool:
    try:
        return client.get("/ready").status_code == 200
    except httpx.ConnectError:
        return False


def test_a_folder_is_served_under_its_name(client: httpx.Client) -> None:
    (served,) = client.get("/v1/models").json()["data"]

    assert served["id"] == "tiny"
    assert served["max_model_len"] == 512


def test_the_same_request_has_the_same_answer(client: httpx.Client) -> None:
    first, second = (client.post("/v1/chat/completions", json=chat("hello")).json() for _ in range(2))

    assert first["choices"] == second["choices"]
    assert first["usage"]["completion_tokens"] <= 6


def test_the_metrics_know_the_layout_of_the_cache(client: httpx.Client) -> None:
    text = client.get("/metrics").text

    assert 'num_blocks="64"' in text
    assert 'tidemark_kv_blocks_capacity{model="tiny"} 64.0' in text


def test_a_server_whose_streams_are_closed_serves_and_writes_to_nothing_of_its_own(model: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = f"exec {sys.executable} -m server serve {model} --port {port} --num-blocks 64 <&- >&- 2>&-"

    with (
        subprocess.Popen(["sh", "-c", command], cwd=ROOT) as server,
        httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=PATIENCE_SECONDS) as client,
    ):
        try:
            while server.poll() is None and not is_ready(client):
                pass
            answer = client.post("/v1/chat/completions", json=chat("hello"))
            streams = {os.readlink(f"/proc/{server.pid}/fd/{number}") for number in range(3)}
        finally:
            server.terminate()

    assert answer.status_code == 200
    assert streams == {os.devnull}
    assert server.returncode == 0


def test_a_signal_ends_the_loading_at_once(model: Path) -> None:
    with ServerProcess("server", "serve", str(model), "--port", "0") as server:
        server.said('"event":"loading"')

        server.send(SIGTERM)
        code = server.exit_code()

    assert code == 0
    assert not any("Traceback" in line for line in server.lines), server.lines


@pytest.mark.parametrize(("drain_seconds", "endings"), [("300", {"[DONE]"}), ("0", {"[DONE]", "engine_stopped"})])
def test_a_signal_while_a_stream_is_open_ends_the_stream_and_then_the_process_without_failure(
    model: Path, drain_seconds: str, endings: set[str]
) -> None:
    body = chat("hello", stream=True, ignore_eos=True) | {"max_tokens": 400}
    flags = ("--port", "0", "--num-blocks", "64", "--server-drain-seconds", drain_seconds)
    with (
        ServerProcess("server", "serve", str(model), *flags) as server,
        server.ready_client() as client,
        client.stream("POST", "/v1/chat/completions", json=body) as stream,
    ):
        lines = stream.iter_lines()
        next(lines)

        server.send(SIGTERM)
        *_, last = filter(None, lines)
        code = server.exit_code()

    said = last.removeprefix("data: ")
    assert (said if said == "[DONE]" else json.loads(said)["error"]["code"]) in endings
    assert code == 0
    assert not any("Traceback" in line or '"level":"error"' in line for line in server.lines), server.lines


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("serve", "model", "--prot", "1"), "unrecognized arguments: --prot 1; did you mean --port?"),
        (("serve", "model", "--threads=2"), "unrecognized arguments: --threads=2; did you mean --num-threads?"),
        (("serve", "model", "--ctx-size", "1"), "unrecognized arguments: --ctx-size 1"),
        (("top", "--port", "1"), "unrecognized arguments: --port 1"),
    ],
)
def test_a_flag_that_its_command_lacks_is_told_with_the_one_that_it_is_like(
    arguments: tuple[str, ...], told: str
) -> None:
    done = tidemark(*arguments)

    usage, error = done.stderr.splitlines()
    assert usage.startswith(f"usage: tidemark {arguments[0]} ")
    assert error == f"tidemark {arguments[0]}: error: {told}"
    assert done.returncode == 2


@pytest.mark.parametrize("arguments", [("--host", "no.such.host.invalid"), ("--server-store-path", "/nowhere/kept")])
def test_why_a_server_does_not_start_is_an_error_in_its_log(arguments: tuple[str, ...]) -> None:
    done = tidemark("serve", "model", "--port", "0", *arguments)

    (line,) = done.stderr.splitlines()
    assert json.loads(line)["level"] == "error"
    assert "tidemark: can't " in json.loads(line)["text"]
    assert done.returncode == 1


@pytest.mark.parametrize(
    ("command", "name"),
    [
        (["serve", "--port", "0", "--model"], "nothing-here"),
        (["serve", "--port", "0", "--model"], "empty-folder"),
        (["serve", "--port", "0", "--model"], "broken.gguf"),
        (["trace", "hello", "--model"], "broken-config"),
    ],
)
def test_a_model_that_can_not_be_served_is_one_line_and_exit_1(tmp_path: Path, command: list[str], name: str) -> None:
    (tmp_path / "empty-folder").mkdir()
    (tmp_path / "broken.gguf").write_bytes(b"GGUF and then nothing")
    (tmp_path / "broken-config").mkdir()
    (tmp_path / "broken-config" / "config.json").write_text('{"model_type": "no-such-thing"}')

    done = tidemark(*command, str(tmp_path / name))

    assert done.returncode == 1
    (line,) = [line for line in done.stderr.splitlines() if "can't serve" in line]
    assert command[0] == "trace" or json.loads(line)["level"] == "error"
    assert "Traceback" not in done.stderr
    assert done.stdout == ""


@pytest.mark.parametrize(
    ("flags", "path"),
    [
        ((), rf"float32, context 512\) on straight-line decoder, {FASTEST}; cache: .*, bfloat16, 64 blocks"),
        (("--weights", "int8", "--cache-dtype", "int8"), r"int8, context 512\) on straight-line .*, int8, 64 blocks"),
        (("--kernels", "torch"), r"float32, context 512\) on modules of transformers, torch; cache: .*, float32, 64"),
    ],
)
def test_the_start_line_says_what_the_model_runs_on(model: Path, flags: tuple[str, ...], path: str) -> None:
    with ServerProcess("server", "serve", str(model), "--port", "0", "--num-blocks", "64", *flags) as server:
        server.said(path)


@pytest.mark.parametrize(
    ("flags", "reason"),
    [
        (("--kernels", "torch", "--weights", "int8"), "model.weights is int8, which takes the native kernels"),
        (("--kernels", "avx2", "--block-size", "8"), "cache.block_size is 8 and model.kernels avx2"),
    ],
)
def test_what_the_kernels_can_not_do_is_one_line_and_exit_1(model: Path, flags: tuple[str, ...], reason: str) -> None:
    done = tidemark("serve", str(model), "--port", "0", *flags)

    assert done.returncode == 1
    assert reason in done.stderr
    assert "Traceback" not in done.stderr


def test_a_trace_shows_steps_to_people(model: Path) -> None:
    done = tidemark("trace", "hello hello", "--with", "hello there", "--model", str(model), "--max-tokens", "3")

    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[2].split()[:4] == ["step", "sequence", "chunk", "planned"]
    assert any(" a/0 " in line for line in lines)
    assert any(" b/0 " in line for line in lines)
    assert any(line.startswith("b: ") for line in lines)


def test_a_trace_shows_steps_to_programs(model: Path) -> None:
    plainly = ("--json", "--raw", "--max-draft-tokens", "0")
    done = tidemark("trace", "hello", *plainly, "--model", str(model), "--max-tokens", "3")

    assert done.returncode == 0, done.stderr
    shown = [json.loads(line) for line in done.stdout.splitlines()]
    assert [one["step"] for one in shown] == list(range(1, len(shown) + 1))
    for one in shown:
        assert one["chunk"][1] == one["planned"] == one["computed"] == one["accepted"] - 1
        assert len(one["tokens"]) == 1
        assert one["published"] <= one["accepted"]


def test_an_interrupted_trace_shows_no_traceback(model: Path) -> None:
    endless = ("trace", "hello", "--model", str(model), "--max-tokens", "400", "--repeat", "100000")
    with ServerProcess("server", *endless) as process:
        process.said("tidemark: ")

        process.send(SIGINT)
        code = process.exit_code()

    assert code == 130
    assert not any("Traceback" in line for line in process.lines), process.lines


def test_a_reader_that_leaves_ends_a_trace_quietly(model: Path) -> None:
    command = [sys.executable, "-m", "server", "trace", "hello", "--model", str(model), "--max-tokens", "3"]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    process.stdout.close()

    _, said = process.communicate(timeout=PATIENCE_SECONDS)

    assert process.returncode in (0, 1)
    assert "Traceback" not in said
    assert "Exception ignored" not in said


def test_a_doctor_finds_nothing_that_prevents_serving(model: Path) -> None:
    done = tidemark("doctor", str(model), "--port", "0")

    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stderr.splitlines()[0] == "tidemark: importing torch"
    assert f"straight-line decoder, {FASTEST}; a small copy answered as transformers does" in " ".join(
        done.stdout.split()
    )
    assert done.stdout.splitlines()[-1].startswith("Nothing here would prevent serving")


def test_a_doctor_tells_programs_what_prevents_serving(tmp_path: Path) -> None:
    (tmp_path / "x.gguf").write_bytes(b"no model")

    done = tidemark("doctor", "--json", "--model", str(tmp_path / "x.gguf"), "--port", "0")

    body = json.loads(done.stdout)
    (finding,) = body["sections"][-1]["findings"]
    assert (done.returncode, body["serves"]) == (1, False)
    assert (finding["grade"], finding["text"].endswith("x.gguf is no GGUF file: it has 8 bytes")) == ("fault", True)


def test_a_doctor_prints_the_settings_that_it_would_judge() -> None:
    done = tidemark("doctor", "--print-config", "--port", "81")

    assert (done.returncode, done.stderr) == (0, "")
    assert "port = 81" in done.stdout
