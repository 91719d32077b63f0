from array import array

import pytest
import torch

from engine.model.pool import HiddenNotFinite, add_pooled
from engine.step import Chunk, ChunkResult, Pool, Table, Ticket

HIDDEN = torch.tensor([[1e8, 1.0], [1.0, 2.0], [-1e8, 3.0]])


def chunk(name: str, pool: Pool | None, *, count: int = 3) -> Chunk:
    return Chunk(Ticket(name, 0, 0, 0, (Table(()),)), (2,) * count, pool=pool)


def sums(*chunks: Chunk, hidden: torch.Tensor = HIDDEN) -> list[list[float]]:
    results = add_pooled([ChunkResult(each.ticket) for each in chunks], chunks, hidden)
    return [list(array("d", result.pooled)) for result in results]


def test_states_are_added_in_float64_position_by_position() -> None:
    assert sums(chunk("a", Pool(0))) == [[1.0, 6.0]]


def test_a_chunk_goes_on_with_the_sum_of_the_ones_before() -> None:
    before = array("d", [0.5, -6.0]).tobytes()

    assert sums(chunk("a", Pool(0, before))) == [[1.5, 0.0]]


def test_each_chunk_gets_its_own_rows() -> None:
    chunks = (chunk("a", Pool(2)), chunk("none", None), chunk("b", Pool(1)))

    assert sums(*chunks) == [[1e8, 1.0], [], [1.0 - 1e8, 5.0]]


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_states_that_are_no_numbers_name_their_sequence(value: float) -> None:
    hidden = torch.tensor([[1.0, 2.0], [3.0, value]])

    with pytest.raises(HiddenNotFinite, match="sequence bad"):
        sums(chunk("good", Pool(2)), chunk("bad", Pool(2)), hidden=hidden)
