from benchmarks.targets import judgement
from tests.benchmarks.runs import a_column, a_summary

FIRST_ANSWER = "| from start to the first answer, s | 3.25 s | at most 8 s | 5 s | met |"


def test_a_rate_is_judged_by_the_peers_in_the_same_run() -> None:
    ours = a_column("Tidemark", {"W1": a_summary(decode_per_s=65.0)})
    llama = a_column("llama.cpp", {"W1": a_summary(decode_per_s=50.0)})
    openvino = a_column("OpenVINO GenAI", {"W1": a_summary(decode_per_s=40.0)})

    text = judgement([ours, llama, openvino])

    assert "| W1 one stream, against llama.cpp | 1.3 × | at least 1.2 × | 1.6 × | met |" in text
    assert "| W1 one stream, against OpenVINO GenAI | 1.62 × | at least 2 × |  | missed |" in text
    assert "W2 16" not in text


def test_a_gap_is_judged_by_the_peer_with_small_batches() -> None:
    ours = a_column("Tidemark", {"W5": a_summary(longest_gap_during_ms=200.0)})
    usual = a_column("llama.cpp", {"W5": a_summary(longest_gap_during_ms=9000.0)})
    small = a_column("llama.cpp, small batches", {"W5": a_summary(longest_gap_during_ms=1200.0)})

    text = judgement([ours, usual, small])

    assert "against llama.cpp, small batches: times less | 6 × | at least 5 × |  | met |" in text
    assert "| W5 that gap, in median gaps of the 8 streams | 4 × | at most 3 × | 2 × | missed |" in text


def test_without_peers_the_figures_that_need_none_are_judged() -> None:
    text = judgement([a_column("Tidemark", {})])

    assert FIRST_ANSWER in text
    assert text.endswith("Met: 1 of 1.")


def test_several_runs_are_judged_by_their_medians() -> None:
    ours = a_column("Tidemark", *({"W1": a_summary(decode_per_s=rate)} for rate in (60.0, 1.0, 61.0)))
    theirs = a_column("llama.cpp", *({"W1": a_summary(decode_per_s=rate)} for rate in (49.0, 50.0, 99.0)))

    assert "against llama.cpp | 1.2 × | at least 1.2 ×" in judgement([ours, theirs])


def test_nothing_is_judged_by_a_failure() -> None:
    ours = a_column("Tidemark", {"W1": a_summary()})
    theirs = a_column("llama.cpp", {"W1": a_summary(errors=("no tokens",))})

    assert "W1" not in judgement([ours, theirs])


def test_peers_alone_are_not_judged() -> None:
    assert judgement([a_column("llama.cpp", {"W1": a_summary()})]) == "No target can be judged by what was measured."
