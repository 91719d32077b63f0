from pathlib import Path

from benchmarks.bench_watch import COMPARISON
from benchmarks.table import put_between
from tests.benchmarks.commands import run
from tests.tiny import make_tiny_model_folder


def test_the_benchmark_of_watching_sees_something_and_tells_what_that_took(tmp_path: Path) -> None:
    make_tiny_model_folder(tmp_path / "tiny")

    ended = run("bench_watch", "--model", tmp_path / "tiny", "--smoke", "--threads", "1")

    assert ended.returncode == 0, ended.stderr
    assert "| tokens/s |" in ended.stdout
    assert "Seen in 0 s: 0 snapshots" not in ended.stdout
    assert "no figure means anything" in ended.stdout


def test_the_page_has_a_place_for_the_table() -> None:
    page = put_between(COMPARISON.page.read_text(), COMPARISON.mark, "new")

    assert f"<!-- {COMPARISON.mark}:begin -->\nnew\n<!-- {COMPARISON.mark}:end -->" in page
