import pytest

from benchmarks.load import BadAnswer, Size, Stream, disturbed, percentile, prompt_of, summary, take


def a_stream(*arrivals: float, started: float = 0.0, error: str | None = None) -> Stream:
    return Stream(started, arrivals=list(arrivals), output_tokens=len(arrivals), prompt_tokens=10, error=error)


def test_a_prompt_is_the_same_for_the_same_seed_and_another_for_another() -> None:
    assert prompt_of(4, "7w10") == " shape output link config"
    assert prompt_of(4, "7w10") != prompt_of(4, "7w11")


def test_a_share_leaves_each_workload_at_least_one_request() -> None:
    assert list(Size(requests=0.125).numbers(32)) == [0, 1, 2, 3]
    assert list(Size(requests=0.0).numbers(12)) == [0]


def test_a_share_leaves_each_request_a_gap_to_measure() -> None:
    assert Size(tokens=0.5).count(128) == 64
    assert Size(tokens=0.01).count(16) == 2


def test_a_chunk_with_text_or_without_a_reason_is_an_arrival() -> None:
    stream = a_stream()

    take({"choices": [{"text": "a", "finish_reason": None}]}, stream)
    take({"choices": [{"text": "", "finish_reason": None}]}, stream)
    take({"choices": [{"text": "", "finish_reason": "length"}]}, stream)

    assert len(stream.arrivals) == 2


def test_usage_counts_the_tokens() -> None:
    stream = a_stream()

    take({"choices": [], "usage": {"prompt_tokens": 5, "completion_tokens": 3, "prompt_tokens_details": None}}, stream)

    assert (stream.prompt_tokens, stream.output_tokens, stream.cached_tokens) == (5, 3, 0)


def test_an_error_in_a_stream_is_an_error_of_the_request() -> None:
    with pytest.raises(BadAnswer, match="boom"):
        take({"error": {"message": "boom"}}, a_stream())


def test_a_summary_leaves_out_what_failed() -> None:
    good, bad = a_stream(1.0, 1.5, 2.5), a_stream(error="OSError: gone")

    result = summary([good, bad], wall=5.0)

    assert result["requests"] == 2
    assert result["errors"] == ["OSError: gone"]
    assert result["output_per_s"] == 0.6
    assert result["ttft_p50_ms"] == 1000.0
    assert result["gap_max_ms"] == 1000.0


def test_a_summary_of_nothing_but_failures_has_no_times() -> None:
    result = summary([a_stream(error="OSError: gone")], wall=1.0)

    assert result["ttft_p50_ms"] is None
    assert result["decode_per_s_p50"] == 0


def test_gaps_are_split_by_when_the_long_prompt_came_and_was_answered() -> None:
    stream = a_stream(1.0, 1.1, 4.1, 4.2)
    long = a_stream(4.0, 5.0, started=2.0)

    result = disturbed(summary([stream], wall=5.0), [stream], long)

    assert result["before"] == {"gaps": 1, "p50_ms": 100.0, "max_ms": 100.0}
    assert result["during"] == {"gaps": 1, "p50_ms": 3000.0, "max_ms": 3000.0}
    assert result["long"] == {"error": None, "ttft_ms": 2000.0}


def test_a_percentile_of_nothing_is_none() -> None:
    assert percentile([], 0.5) is None
    assert percentile([3.0, 1.0, 2.0], 0.5) == 2.0
    assert percentile([3.0, 1.0, 2.0], 0.99) == 3.0
