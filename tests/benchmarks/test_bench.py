import json
from pathlib import Path

import pytest

from benchmarks.load import WORKLOADS
from benchmarks.peers import llama, openvino
from benchmarks.peers.catalogue import PEERS, USUAL
from tests.benchmarks.commands import run

BUILT = [name for name in USUAL if PEERS[name].installed()]  # those that `make bench-peers` built here; CI builds none

NAMES = {"llama": llama.NAME, "openvino": openvino.NAME}


def test_the_benchmark_of_the_server_measures_each_workload(default_model: Path, tmp_path: Path) -> None:
    kept = tmp_path / "run.json"

    ended = run("bench", "--model", default_model, "--smoke", "--json", kept)

    assert ended.returncode == 0, ended.stderr
    (measured,) = json.loads(kept.read_text())["runs"]
    assert list(measured["results"]) == list(WORKLOADS)
    assert "| W5 the 8 streams' output tokens/s |" in ended.stdout
    assert "no figure means anything" in ended.stdout


def test_the_benchmark_of_peers_judges_tidemark_beside_what_is_built(default_model: Path) -> None:
    asked = ("--peers", ",".join(BUILT), "--smoke", "--only", "W1,W5")

    ended = run("bench_peers", "--model", default_model, *asked)

    assert ended.returncode == 0, ended.stderr
    names = ended.stdout.partition("\n")[0]
    assert "Tidemark" in names
    assert all(NAMES[peer] in names for peer in BUILT)
    assert "| from start to the first answer, s |" in ended.stdout


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("--only", "W1,W9"), "no such workload: W9"),
        (("--peers", "llama,vllm"), "no such peer: vllm"),
        (("--smoke", "--write"), "not allowed with"),
    ],
)
def test_what_can_not_be_measured_is_refused_at_once(arguments: tuple[str, ...], reason: str) -> None:
    ended = run("bench_peers", "--model", "model.gguf", *arguments)

    assert ended.returncode == 2
    assert reason in ended.stderr
