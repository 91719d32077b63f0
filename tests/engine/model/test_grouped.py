"""Both kinds of grouped layers, since they are made and called alike."""

import pytest
import torch
from torch import Tensor

from engine.model.grouped import GroupMaker
from engine.model.kernels.choice import Kernels
from engine.model.packed_groups import PackedGroups
from tests.engine.model.groups import PATHS, group_maker, plain_groups

STARTS = [0, 3, 3, 4, 20]  # the second group has no rows
OUTPUTS, INPUTS = 40, 64


def random(*shape: int, seed: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


@pytest.fixture(params=PATHS, ids=str)
def kernels(request: pytest.FixtureRequest) -> Kernels | None:
    found: Kernels | None = request.param
    return found


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("has_biases", [False, True])
def test_each_group_s_rows_meet_its_own_matrix(kernels: Kernels | None, *, transposed: bool, has_biases: bool) -> None:
    weights = random(4, INPUTS, OUTPUTS, seed=0).transpose(1, 2) if transposed else random(4, OUTPUTS, INPUTS, seed=0)
    biases = random(4, OUTPUTS, seed=1) if has_biases else None
    rows = random(STARTS[-1], INPUTS, seed=2)

    with group_maker(kernels) as make:
        out = make(weights, biases)(rows, STARTS)

    torch.testing.assert_close(out, plain_groups(weights, biases, rows, STARTS), atol=1e-4, rtol=0)


def test_a_row_has_the_same_bits_among_any_others(kernels: Kernels | None) -> None:
    weights, rows = random(4, OUTPUTS, INPUTS, seed=0), random(STARTS[-1], INPUTS, seed=2)

    with group_maker(kernels) as make:
        groups = make(weights, None)
        out = groups(rows, STARTS)
        alone = [groups(rows[2:3], [0, 1, 1, 1, 1]), groups(rows[9:10], [0, 0, 0, 0, 1])]

    assert torch.equal(torch.cat(alone), out[[2, 9]])


@pytest.mark.parametrize("kernels", PATHS[1:], ids=str)
def test_matrices_are_kept_in_the_bits_that_were_asked_for(kernels: Kernels) -> None:
    def num_bytes(make: GroupMaker) -> int:
        groups = make(random(4, OUTPUTS, INPUTS, seed=0), None)
        assert isinstance(groups, PackedGroups)
        return sum(matrix.num_bytes for matrix in groups.matrices)

    with group_maker(kernels) as exact, group_maker(kernels, "int8") as short:
        assert num_bytes(short) < num_bytes(exact) / 3
