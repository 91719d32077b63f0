from dataclasses import replace

from benchmarks.precision.loss import Loss
from benchmarks.precision.measure import Result, Results
from benchmarks.precision.tables import judgement, tables

LOSS = Loss(num_tokens=9, mean_kl=0.0025, max_kl=0.2, same_best=0.9912, top_change=0.0123, perplexity=12.3456)
NONE = Loss(num_tokens=9, mean_kl=0.0, max_kl=0.0, same_best=1.0, top_change=0.0, perplexity=12.3)
RESULT = Result(LOSS, weight_bytes=98_400_000, position_bytes=23_040)


def test_each_choice_has_its_sizes_and_its_loss() -> None:
    text = tables(Results(replace(RESULT, loss=NONE), {"a": RESULT}, {"b": replace(RESULT, loss=NONE)}, {}), "avx2")

    assert "| float32 arithmetic | 98 | 23,040 | - | - | - | - | 12.300 |" in text
    assert "| a | 98 | 23,040 | 0.002500 | 0.200000 | 99.12% | 0.0123 | 12.346 |" in text
    assert "| b | 98 | 23,040 | under 0.000001 | under 0.000001 | 100.00% | 0.0000 | 12.300 |" in text
    assert "rounded" not in text


def test_what_was_acted_out_has_a_table_of_its_own() -> None:
    text = tables(Results(RESULT, {"a": RESULT}, {}, {"to 8 bits": RESULT}), "avx2")

    assert "| to 8 bits | 0.002500 | 0.200000 | 99.12% | 0.0123 | 12.346 |" in text


def test_a_level_keeps_the_promise_or_misses_it() -> None:
    losses = {
        "a": LOSS,
        "b": replace(LOSS, mean_kl=0.003),
        "c": replace(LOSS, same_best=0.9899),
        "d": NONE,
    }

    assert judgement(losses).endswith("for 99%: kept by a, d, missed by b, c.")
    assert judgement({"d": NONE}).endswith("kept by d.")
