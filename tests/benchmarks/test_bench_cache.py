from pathlib import Path

from benchmarks.bench_cache import MARKS, PAGE
from benchmarks.page import written
from tests.benchmarks.commands import run
from tests.tiny import make_tiny_model_folder


def test_the_benchmark_of_the_cache_measures_memory_hits_and_checkpoints(tmp_path: Path) -> None:
    make_tiny_model_folder(tmp_path / "tiny")

    ended = run("bench_cache", "--model", tmp_path / "tiny", "--smoke", "--threads", "1")

    assert ended.returncode == 0, ended.stderr
    assert "| SmolLM2 135M | full attention, 30 layers, 3 kv heads x 64 | 720.0 | 382.5 |" in ended.stdout
    assert "| Mamba-2 130M |" in ended.stdout
    hits = [line.split(" | ") for line in ended.stdout.splitlines() if line.startswith(("| tiny |", "| recurrent |"))]
    assert [(line[3], line[5]) for line in hits] == [("80", "80"), ("80", "80")]
    assert "| a prompt of 96, first token |" in ended.stdout
    assert "| a step that decodes, of 4 |" in ended.stdout
    assert "no figure means anything" in ended.stdout


def test_the_page_has_a_place_for_each_part() -> None:
    page = written(PAGE.read_text(), {mark: f"new {mark}" for mark in MARKS})

    assert all(f"<!-- {mark}:begin -->\nnew {mark}\n<!-- {mark}:end -->" in page for mark in MARKS)
