import pytest

from benchmarks.kernels.linears import STORAGES
from benchmarks.kernels.shares import AttentionShare, LinearShare


def linear(num_rows: int, *, seconds: float) -> LinearShare:
    return LinearShare(STORAGES[0], 3072, 576, num_rows, num_bytes=7_077_888, seconds=seconds, allowed=1.0)


@pytest.mark.parametrize(
    ("num_rows", "seconds", "met"), [(1, 1.1, True), (1, 1.3, False), (16, 1.3, True), (16, 1.4, False)]
)
def test_one_row_is_held_to_the_bandwidth_and_many_to_less(num_rows: int, *, seconds: float, met: bool) -> None:
    assert linear(num_rows, seconds=seconds).met is met


def test_attention_is_held_to_the_time_that_its_bytes_take() -> None:
    assert AttentionShare("bfloat16", 8, 384, seconds=1.4, allowed=1.0).met
    assert not AttentionShare("bfloat16", 8, 384, seconds=1.6, allowed=1.0).met
