"""OpenVINO GenAI as a peer: its pipeline in a process of its own, without HTTP, in an environment of its own."""

import json
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from typing import IO, Any

from benchmarks.conditions import num_cores
from benchmarks.load import Size
from benchmarks.measure import MAX_WORKLOAD_SECONDS, MEMORY_AFTER, SEED, Contender, Run, check_errors, tell
from benchmarks.peers.place import PEERS, install_step
from benchmarks.process import ServerFailed, running

NAME = "OpenVINO GenAI"
PACKAGE, VERSION = "openvino-genai", "2026.4.1.0"
ENVIRONMENT = PEERS / f"{PACKAGE}-{VERSION}"
PYTHON = ENVIRONMENT / "bin" / "python"
WHOLE = ENVIRONMENT / "whole"  # there once nothing is left to install
NUM_THREADS = num_cores()


def installed() -> bool:
    """Whether the pipeline is there."""
    return WHOLE.exists()


def install() -> None:
    """Install the package into an environment of its own.

    Raises:
        PeerMissing: with what failed.
    """
    install_step(NAME, [sys.executable, "-m", "venv", "--clear", ENVIRONMENT])
    pip = (PYTHON, "-m", "pip", "--disable-pip-version-check")
    install_step(NAME, [*pip, "install", f"{PACKAGE}=={VERSION}"])
    WHOLE.touch()


def contender(model: str) -> Contender:
    """The pipeline on the very file."""

    def fill(run: Run, workloads: Sequence[str], size: Size) -> None:
        sizes = ("--scale", str(size.requests), "--shrink", str(size.tokens), "--seed", SEED)
        command = [str(PYTHON), "-m", "benchmarks.peers.pipeline", model, *workloads, *sizes]
        with running(run.name, [*command, "--threads", str(NUM_THREADS)], piped=True) as (process, started):
            _fill(run, process, started)

    about = (
        f"{VERSION}, `ContinuousBatchingPipeline` without HTTP: cache 2 GB, prefix caching, split-fuse, "
        f"256 tokens a step, 16 sequences, {NUM_THREADS} threads, requests with `ignore_eos`"
    )
    return Contender(NAME, about, fill)


def _fill(run: Run, process: subprocess.Popen[bytes], started: float) -> None:
    assert process.stdout is not None
    limit = threading.Timer(MAX_WORKLOAD_SECONDS, process.kill)
    limit.start()
    try:
        for line in told(process.stdout):
            note(run, line, started)
    finally:
        limit.cancel()
    if code := process.wait():
        raise ServerFailed(f"{run.name} ended with exit code {code}")
    check_errors(run)


def told(output: IO[bytes]) -> Iterator[dict[str, Any]]:
    """What the process tells in JSON; other lines that it or its libraries write are passed over."""
    for line in output:
        if line.startswith(b"{"):
            yield json.loads(line)


def note(run: Run, line: dict[str, Any], started: float) -> None:
    """Add one line of the process to the run. Its clock is ours."""
    if "first_answer" in line:
        run.first_answer_seconds = line["first_answer"] - started
        return
    tell(run.name, f"{line['workload']} is done")
    run.results[line["workload"]] = line["result"]
    if line["workload"] == MEMORY_AFTER:
        run.resident_bytes = line["resident_bytes"]
