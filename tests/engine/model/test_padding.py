from itertools import pairwise

import pytest
import torch
from torch.nn import functional

from engine.model.padding import NARROW, apart, settle_paddings


def settle(width: int, *, quantum: int, max_rows: int) -> tuple[int, ...]:
    return settle_paddings([width], quantum=quantum, max_rows=max_rows, dtype=torch.float32)


@pytest.mark.parametrize("num_threads", [1, 2, 3])
@pytest.mark.parametrize("width", [48, 96, 576])
def test_pointwise_operators_treat_a_row_alike_at_every_padding(num_threads: int, width: int) -> None:
    torch.set_num_threads(num_threads)
    paddings = settle(width, quantum=4, max_rows=120)
    rows = torch.randn(max(paddings), width)
    expected = functional.silu(rows)

    for count in paddings:
        assert torch.equal(functional.silu(rows[:count].clone()), expected[:count])


def test_paddings_are_multiples_of_the_quantum_that_reach_the_most_rows() -> None:
    torch.set_num_threads(1)
    paddings = settle(64, quantum=16, max_rows=250)

    assert paddings == tuple(range(16, 257, 16))


def test_large_paddings_stand_further_apart() -> None:
    torch.set_num_threads(1)
    paddings = settle(64, quantum=8, max_rows=1000)

    assert len(paddings) < 50
    assert all(after - before <= max(8, before // 8) for before, after in pairwise(paddings))


def test_a_width_with_leftovers_in_every_row_leaves_few_counts_or_none() -> None:
    torch.set_num_threads(1)
    paddings = settle(33, quantum=1, max_rows=8)

    assert 1 not in paddings


def test_narrow_rows_lie_apart_and_wide_ones_as_they_were() -> None:
    narrow, wide = torch.randn(5, 1), torch.randn(5, NARROW)

    assert torch.equal(apart(narrow), narrow)
    assert not apart(narrow).is_contiguous()
    assert apart(wide) is wide


def test_one_value_in_a_row_asks_for_no_more_rows_than_wide_rows_do() -> None:
    def paddings(*widths: int) -> tuple[int, ...]:
        return settle_paddings(widths, quantum=4, max_rows=400, dtype=torch.float32)

    assert paddings(64, 1) == paddings(64)
