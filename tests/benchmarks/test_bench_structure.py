from pathlib import Path

from benchmarks.bench_structure import COMPARISON
from benchmarks.table import put_between
from tests.benchmarks.commands import run
from tests.tiny import make_tiny_model_folder


def test_the_benchmark_of_structure_compares_each_workload_with_itself(tmp_path: Path) -> None:
    make_tiny_model_folder(tmp_path / "tiny")

    ended = run("bench_structure", "--model", tmp_path / "tiny", "--smoke", "--threads", "1")

    assert ended.returncode == 0, ended.stderr
    lines = [line for line in ended.stdout.splitlines() if line.startswith("| ")]
    assert len(lines) == 1 + 1 + 4
    assert all(line.count("|") == 9 for line in lines)
    assert "no figure means anything" in ended.stdout


def test_the_page_has_a_place_for_the_table() -> None:
    assert f"<!-- {COMPARISON.mark}:begin -->\nnew\n<!-- {COMPARISON.mark}:end -->" in put_between(
        COMPARISON.page.read_text(), COMPARISON.mark, "new"
    )
