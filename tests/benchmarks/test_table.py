import pytest

from benchmarks.table import comparison, put_between, table, verdict
from tests.benchmarks.runs import a_run, a_summary


def test_a_table_has_a_row_for_each_measure_that_was_taken() -> None:
    text = table(a_run("Tidemark", W2=a_summary(output_per_s=1234.5)))

    assert text.startswith("|  | Tidemark |\n| --- | ---: |\n")
    assert "| W2 16 at once: output tokens/s | 1,234 |" in text
    assert "| W2 gap between tokens, longest, s | 1.23 |" in text
    assert "W3" not in text
    assert "| resident memory after W2, GiB | 1 |" in text


def test_a_workload_with_errors_has_no_figures() -> None:
    text = table(a_run("Tidemark", W2=a_summary(errors=("no tokens",))))

    assert "| W2 16 at once: output tokens/s | failed |" in text


def test_a_comparison_says_how_many_times_better_ours_is() -> None:
    ours = a_run("Tidemark", W3=a_summary(prompt_per_s=300.0), W5=a_summary(longest_gap_during_ms=1000.0))
    theirs = a_run("peer", W3=a_summary(prompt_per_s=150.0), W5=a_summary(longest_gap_during_ms=9000.0))

    text = comparison(ours, theirs)

    assert "| W3 prompts of 1,024, 4 at once: prompt tokens/s | 300 | 150 | 2 |" in text
    assert "| W5 a prompt of 2,048 meets 8 streams: their longest gap, s | 1 | 9 | 9 |" in text


def test_nothing_is_compared_with_a_failure() -> None:
    ours, theirs = a_run("Tidemark", W3=a_summary()), a_run("peer", W3=a_summary(errors=("no tokens",)))

    assert "prompt tokens/s | 300 | failed | - |" in comparison(ours, theirs)
    assert verdict(ours, theirs, ["W3"]) == "nothing can be said of W3"


def test_what_only_one_of_two_has_is_shown_without_a_ratio() -> None:
    ours, theirs = a_run("Tidemark", W3=a_summary(prompt_per_s=300.0)), a_run("peer")

    assert "| W3 prompts of 1,024, 4 at once: prompt tokens/s | 300 | - | - |" in comparison(ours, theirs)


def test_the_verdict_names_where_ours_is_slower() -> None:
    ours = a_run("Tidemark", W2=a_summary(output_per_s=30.0), W4=a_summary(output_per_s=30.0))
    theirs = a_run("peer", W2=a_summary(output_per_s=20.0), W4=a_summary(output_per_s=40.0))

    assert verdict(ours, theirs, ["W2", "W4"]) == "Tidemark is slower than peer in W4 (0.75)"
    assert verdict(ours, theirs, ["W2"]) == "Tidemark is no slower than peer in W2"


def test_a_text_is_put_between_its_marks_and_nowhere_else() -> None:
    text = "a\n<!-- figures:begin -->\nold\n<!-- figures:end -->\nb\n"

    assert put_between(text, "figures", "new") == "a\n<!-- figures:begin -->\nnew\n<!-- figures:end -->\nb\n"


@pytest.mark.parametrize("text", ["", "<!-- m:end --><!-- m:begin -->", "<!-- m:begin --><!-- m:end --><!-- m:end -->"])
def test_marks_that_are_not_there_once_in_order_are_an_error(text: str) -> None:
    with pytest.raises(ValueError, match="m:begin"):
        put_between(text, "m", "new")
