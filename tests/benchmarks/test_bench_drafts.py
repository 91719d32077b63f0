from pathlib import Path

from benchmarks.bench_drafts import COMPARISON
from benchmarks.drafts.workloads import EDIT_EVERY, with_edits
from benchmarks.table import put_between
from tests.benchmarks.commands import run
from tests.tiny import make_tiny_model_folder


def test_the_benchmark_of_drafts_compares_each_workload_with_itself(tmp_path: Path) -> None:
    make_tiny_model_folder(tmp_path / "tiny")

    ended = run("bench_drafts", "--model", tmp_path / "tiny", "--smoke", "--threads", "1")

    assert ended.returncode == 0, ended.stderr
    lines = [line for line in ended.stdout.splitlines() if line.startswith("| ")]
    assert len(lines) == 1 + 1 + 4
    assert all(line.count("|") == 8 for line in lines)
    assert "no figure means anything" in ended.stdout


def test_a_draft_model_is_measured_with_an_answer_that_nothing_else_could_guess(tmp_path: Path) -> None:
    make_tiny_model_folder(tmp_path / "tiny")

    small = ("--draft-model", tmp_path / "tiny", "--smoke", "--threads", "1")
    ended = run("bench_drafts", "--model", tmp_path / "tiny", *small)

    assert ended.returncode == 0, ended.stderr
    assert "| an answer that is new, by the draft model |" in ended.stdout


def test_the_page_has_a_place_for_the_table() -> None:
    assert f"<!-- {COMPARISON.mark}:begin -->\nnew\n<!-- {COMPARISON.mark}:end -->" in put_between(
        COMPARISON.page.read_text(), COMPARISON.mark, "new"
    )


def test_an_edited_document_differs_in_few_places_and_in_its_length() -> None:
    tokens = range(3 * EDIT_EVERY)

    edited = with_edits(tokens)

    assert edited[: EDIT_EVERY - 1] == tuple(tokens[: EDIT_EVERY - 1])
    assert len(set(edited) & set(tokens)) >= len(tokens) - 3
    assert edited != tuple(tokens)
