from itertools import pairwise

import pytest
import torch
from torch.nn import functional

from engine.model.batch import make_batch
from engine.model.padding import NARROW, Filling, apart, settle_paddings
from engine.request import Sampling
from engine.step import Choose, Chunk, Plan, Score, Ticket


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


def filling(*chunks: Chunk) -> Filling:
    """Of a batch that is padded to 8 rows."""
    made = Filling()
    made.begin(make_batch(Plan(1, chunks), (8,)))
    return made


def test_padding_is_known_by_the_number_of_rows() -> None:
    choose = Choose(Sampling(seed=0), choice=0, output_index=0)
    step = filling(Chunk(Ticket("a", 0, 1, 0, ()), (5, 6, 7), choose), Chunk(Ticket("b", 0, 1, 9, ()), (8, 9)))

    assert [step.own(count) for count in (8, 1, 16)] == [5, 1, 16]


def test_as_many_rows_of_logits_are_not_taken_for_a_padded_batch() -> None:
    every = Score(0, (0,) * 7, 0)
    step = filling(Chunk(Ticket("a", 0, 1, 0, ()), tuple(range(7)), Choose(Sampling(seed=0), 0, 0), every))

    assert step.own(8) == 8
