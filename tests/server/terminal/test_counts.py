from server.terminal.counts import Counts, told, told_of_all

COUNTS = Counts(prompt=20, cached=16, made=11, accepted=2, rejected=1, first_seconds=0.5, seconds=2.5)
SILENT = Counts(prompt=20, cached=0, made=0, accepted=0, rejected=0, first_seconds=None, seconds=0.5)


def test_the_rate_is_that_of_the_tokens_behind_the_first() -> None:
    assert COUNTS.rate == 5.0
    assert SILENT.rate is None
    assert Counts(1, 0, 1, 0, 0, 0.5, 0.6).rate is None
    assert Counts(1, 0, 2, 0, 0, 0.5, 0.5).rate is None


def test_an_answers_counts_are_one_line() -> None:
    assert told(COUNTS) == (
        "prompt 20 tokens, 16 cached; answer 11 tokens, 5/s; accepted 2 of 3 predicted; first after 0.50 s"
    )
    assert told(SILENT) == "prompt 20 tokens, 0 cached; answer 0 tokens; accepted 0 of 0 predicted"


def test_the_counts_of_all_answers_are_added_up() -> None:
    assert told_of_all([COUNTS, SILENT]) == (
        "2 answers in 3.0 s; prompts 40 tokens, 16 cached; answers 11 tokens, 2 of them predicted"
    )
    assert told_of_all([]).startswith("0 answers in 0.0 s")
