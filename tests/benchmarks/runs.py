"""Runs and summaries with made-up figures."""

from benchmarks.load import Summary
from benchmarks.measure import Run
from benchmarks.table import Column


def a_summary(
    *,
    errors: tuple[str, ...] = (),
    output_per_s: float = 40.0,
    prompt_per_s: float = 300.0,
    decode_per_s: float = 20.0,
    longest_gap_during_ms: float | None = 900.0,
) -> Summary:
    return {
        "requests": 8,
        "errors": list(errors),
        "wall_s": 10.0,
        "output_tokens": 400,
        "prompt_tokens": 3000,
        "cached_tokens": 0,
        "output_per_s": output_per_s,
        "prompt_per_s": prompt_per_s,
        "ttft_p50_ms": 250.0,
        "ttft_p99_ms": 400.0,
        "itl_p50_ms": 50.0,
        "itl_p99_ms": 80.0,
        "gap_max_ms": 1234.5,
        "decode_per_s_p50": decode_per_s,
        "long": {"error": None, "ttft_ms": 4000.0},
        "during": {"gaps": 9, "p50_ms": 100.0, "max_ms": longest_gap_during_ms},
    }


def a_run(name: str, **results: Summary) -> Run:
    return Run(name, first_answer_seconds=3.25, resident_bytes=1 << 30, others_share=0.02, results=results)


def a_column(name: str, *runs: dict[str, Summary]) -> Column:
    return Column(name, [a_run(name, **results) for results in runs])
