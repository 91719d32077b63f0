import pytest

from tests.schemas.corpus import Case
from tests.schemas.table import kind_of, table
from tests.schemas.trial import Trial, Verdict, is_beginning, judge

CASE = Case("ours", "a", {"type": "object", "properties": {"a": {"type": "string", "format": "date"}}})


@pytest.mark.parametrize(
    "text", ["", " ", "{", '{"', '{"a', '{"a":', '{"a": tr', '{"a": "\\u00', "[1, -", "[1,", '{"a": 1', "[nul", "{}"]
)
def test_a_text_that_stops_early_is_a_beginning(text: str) -> None:
    assert is_beginning(text)


@pytest.mark.parametrize("text", ["x", "{x", '{"a" 1', "[1 2", "{} x", "[tru]", '{"a": tx'])
def test_a_text_that_is_wrong_before_its_end_is_none(text: str) -> None:
    assert not is_beginning(text)


def test_a_whole_answer_is_judged_by_the_schema() -> None:
    assert judge(CASE, '{"a": "2026-11-30"}', ended=True) == (Verdict.VALID, "")
    for wrong in ('{"a": 1}', "[]", '{"a": "today"}', "{"):
        verdict, fault = judge(CASE, wrong, ended=True)
        assert verdict is Verdict.INVALID
        assert wrong in fault


def test_an_answer_that_ran_out_of_tokens_is_the_beginning_of_one_or_invalid() -> None:
    assert judge(CASE, '{"a', ended=False) == (Verdict.BEGUN, "")
    assert judge(CASE, "a", ended=False)[0] is Verdict.INVALID


def test_the_table_counts_by_source_and_says_why_schemas_were_refused() -> None:
    other = Case("theirs", "b", {})
    trials = [
        Trial(CASE, verdicts=(Verdict.VALID, Verdict.BEGUN, Verdict.VALID)),
        Trial(other, refusal='Unimplemented keys: ["not", "if"]'),
        Trial(other, refusal="Resource 'http://a/b' is not present"),
        Trial(other, refusal="Resource 'http://c' is not present"),
    ]

    lines = table(trials).splitlines()

    assert lines[2] == "| ours | 1 | 0 | 1 | 2 | 1 | 0 |"
    assert lines[3] == "| theirs | 3 | 3 | 0 | 0 | 0 | 0 |"
    assert lines[4] == "| all | 4 | 3 | 1 | 2 | 1 | 0 |"
    assert lines[-2:] == ["| Resource … | 2 |", "| keywords that can't be enforced: not, if | 1 |"]


def test_reasons_beyond_the_first_few_are_counted_together() -> None:
    trials = [Trial(CASE, refusal="abcdefghijkl"[: count + 1]) for count in range(12)]

    assert table(trials).splitlines()[-1] == "| other reasons | 4 |"


def test_a_reason_is_told_without_what_is_particular() -> None:
    assert kind_of("Unknown format: regex") == "Unknown format: regex"
    assert kind_of("minLength (5) is greater") == "minLength …"
