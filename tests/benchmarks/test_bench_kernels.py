from benchmarks.bench_kernels import attention_table, judgement, linears_table
from benchmarks.kernels.linears import STORAGES
from benchmarks.kernels.shares import AttentionShare, LinearShare
from tests.benchmarks.commands import run

LINEAR = [
    LinearShare(STORAGES[0], 1000, 500, num_rows=1, num_bytes=2_000_000, seconds=1e-4, allowed=0.9e-4),
    LinearShare(STORAGES[0], 1000, 500, num_rows=16, num_bytes=2_000_000, seconds=1e-4, allowed=0.5e-4),
]
DECODING = [AttentionShare("int8", count, 2048, seconds=1e-4 * count, allowed=0.8e-4) for count in (1, 8)]


def test_one_row_is_told_in_bytes_and_several_in_operations() -> None:
    text = linears_table(LINEAR)

    assert "| linear layer | 1 row, GB/s | 16 rows, GFLOP/s |" in text
    assert "| 1000 × 500, float32 | 20 (90%) | 160 (50%) |" in text


def test_attention_is_told_beside_what_the_bandwidth_allows() -> None:
    text = attention_table(DECODING)

    assert "| 1 sequences | 8 sequences |" in text
    assert "| int8, context 2,048 | 100 (1.2 ×) | 800 (10 ×) |" in text


def test_the_cases_that_are_near_enough_are_counted() -> None:
    text = judgement(LINEAR, DECODING)

    assert "of the read bandwidth or more: 1 of 1;" in text
    assert "what bandwidth and product allow: 0 of 1;" in text
    assert "its cache's bytes take: 1 of 2." in text


def test_the_benchmark_of_the_kernels_measures_each_of_them() -> None:
    ended = run("bench_kernels", "--smoke", "--level", "avx2")

    assert ended.returncode == 0, ended.stderr
    assert "| 576 × 1536, 4 bits with minima (Q4_1) |" in ended.stdout
    assert "| int8, context 64 |" in ended.stdout
    assert "Level AVX2" in ended.stdout
