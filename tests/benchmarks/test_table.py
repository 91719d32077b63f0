import pytest

from benchmarks.table import CROWD, Column, put_between, table
from tests.benchmarks.runs import a_column, a_run, a_summary


def test_a_table_has_a_row_for_each_measure_that_was_taken() -> None:
    text = table([a_column("Tidemark", {"W2": a_summary(output_per_s=1234.5)})])

    assert text.startswith("|  | Tidemark |\n| --- | ---: |\n")
    assert "| W2 16 at once: output tokens/s | 1,234 |" in text
    assert "| W2 gap between tokens, longest, s | 1.23 |" in text
    assert "W3" not in text
    assert "| resident memory after W2, GiB | 1 |" in text
    assert "| cores that others took meanwhile, % | 2 |" in text


def test_a_workload_with_errors_has_no_figures() -> None:
    column = a_column("Tidemark", {"W2": a_summary()}, {"W2": a_summary(errors=("no tokens",))})

    assert "| W2 16 at once: output tokens/s | failed |" in table([column])
    assert CROWD.median(column) is None


def test_several_runs_give_the_median_the_least_and_the_most() -> None:
    rates = (50.0, 40.0, 90.0)

    column = a_column("Tidemark", *({"W2": a_summary(output_per_s=rate)} for rate in rates))

    assert "| W2 16 at once: output tokens/s | 50 (40 to 90) |" in table([column])
    assert CROWD.median(column) == 50


def test_what_only_one_of_two_has_is_shown_without_the_other() -> None:
    ours, theirs = a_column("Tidemark", {"W3": a_summary(prompt_per_s=300.0)}), a_column("peer", {})

    assert "| W3 prompts of 1,024, 4 at once: prompt tokens/s | 300 | - |" in table([ours, theirs])


def test_the_longest_gap_is_told_in_median_gaps_too() -> None:
    column = a_column("Tidemark", {"W5": a_summary(longest_gap_during_ms=150.0)})

    assert "| W5 that gap, in median gaps of the 8 streams | 3 |" in table([column])


def test_what_the_system_does_not_tell_is_no_row() -> None:
    run = a_run("Tidemark")
    run.others_share = None

    assert "others" not in table([Column("Tidemark", [run])])


def test_a_text_is_put_between_its_marks_and_nowhere_else() -> None:
    text = "a\n<!-- figures:begin -->\nold\n<!-- figures:end -->\nb\n"

    assert put_between(text, "figures", "new") == "a\n<!-- figures:begin -->\nnew\n<!-- figures:end -->\nb\n"


@pytest.mark.parametrize("text", ["", "<!-- m:end --><!-- m:begin -->", "<!-- m:begin --><!-- m:end --><!-- m:end -->"])
def test_marks_that_are_not_there_once_in_order_are_an_error(text: str) -> None:
    with pytest.raises(ValueError, match="m:begin"):
        put_between(text, "m", "new")
