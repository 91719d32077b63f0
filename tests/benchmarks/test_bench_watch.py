from pathlib import Path

from benchmarks.bench_watch import COMPARISON
from benchmarks.table import put_between
from benchmarks.watching.measure import Found, Seen, watching_text
from tests.benchmarks.commands import run
from tests.tiny import make_tiny_model_folder


def test_the_benchmark_of_watching_sees_something_and_compares_each_round_with_its_own(tmp_path: Path) -> None:
    make_tiny_model_folder(tmp_path / "tiny")

    ended = run("bench_watch", "--model", tmp_path / "tiny", "--smoke", "--threads", "1")

    assert ended.returncode == 0, ended.stderr
    lines = [line for line in ended.stdout.splitlines() if line.startswith("| ")]
    assert len(lines) == 1 + 1 + 2
    assert "Seen: 0 snapshots" not in ended.stdout
    assert "no figure means anything" in ended.stdout


def test_losses_are_told_by_their_median_and_their_middle_half() -> None:
    alone = [100.0, 200.0, 100.0, 100.0, 100.0]
    watched = [99.0, 196.0, 97.0, 100.0, 101.0]

    text = watching_text(Found(alone, watched, Seen(4, 2, 4000)))

    assert "| alone | 100 | | |" in text
    assert "| watched | 100 | 1.0% | 0.0% to 2.0% |" in text
    assert text.endswith("Seen: 4 snapshots of 1,000 bytes, 2 scrapes.")


def test_one_round_is_its_own_middle() -> None:
    text = watching_text(Found([50.0], [50.0], Seen()))

    assert "| watched | 50 | 0.0% | 0.0% to 0.0% |" in text
    assert "Seen: 0 snapshots of 0 bytes, 0 scrapes." in text


def test_the_page_has_a_place_for_the_table() -> None:
    page = put_between(COMPARISON.page.read_text(), COMPARISON.mark, "new")

    assert f"<!-- {COMPARISON.mark}:begin -->\nnew\n<!-- {COMPARISON.mark}:end -->" in page
