"""Products that are made once: each run has its own rows, and what is padding costs nothing."""

from itertools import pairwise

import pytest
import torch
from torch import Tensor

from engine.model.kernels.choice import Kernels
from engine.model.kernels.matrix import Matrix, pack
from engine.model.kernels.native import Kind, Level
from engine.model.kernels.product import GroupedProduct, MatrixProduct, Place
from tests.engine.model.kernels.machine import random_matrix, the_library

KINDS = (Kind.F32, Kind.BF16, Kind.Q4)


@pytest.fixture
def place(level: Level, pool: int) -> Place:
    return Place(Kernels(the_library(), level), pool)


def packed(kind: Kind, inputs: int = 64, seed: int = 0) -> Matrix:
    return pack(the_library(), random_matrix(kind, 37, inputs, seed=seed))


def random(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_a_run_knows_nothing_of_those_before_it(kind: Kind, place: Place) -> None:
    matrices = packed(kind), packed(kind, inputs=4096)
    products = [MatrixProduct(place, matrix.weight(), None) for matrix in matrices]
    batches = [(which, random(count, matrices[which].inputs)) for count in (40, 3, 500) for which in (0, 1)]

    kept = [products[which](rows, len(rows)) for which, rows in batches]

    for (which, rows), out in zip(batches, kept, strict=True):
        assert torch.equal(out, MatrixProduct(place, matrices[which].weight(), None)(rows, len(rows)))


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_padding_is_not_computed_and_comes_out_as_zeros(kind: Kind, place: Place) -> None:
    matrix, rows, bias = packed(kind), random(16, 64), random(37, seed=1)
    product = MatrixProduct(place, matrix.weight(), bias)
    whole = product(rows, 16)
    rows[5:] = torch.nan

    out = product(rows, 5)

    assert torch.equal(out[:5], whole[:5])
    assert torch.equal(out[5:], torch.zeros(11, 37))


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_groups_begin_elsewhere_in_each_run(kind: Kind, place: Place) -> None:
    matrices = [packed(kind, seed=group) for group in range(3)]
    biases, rows = random(3, 37, seed=1), random(20, 64)
    product = GroupedProduct(place, [matrix.weight() for matrix in matrices], biases)
    alone = [MatrixProduct(place, matrix.weight(), biases[group])(rows, 20) for group, matrix in enumerate(matrices)]

    for starts in ([0, 6, 6, 20], [0, 0, 1, 20], [0, 20, 20, 20]):
        out = product(rows, starts)

        spans = pairwise(starts)
        assert torch.equal(out, torch.cat([alone[group][first:end] for group, (first, end) in enumerate(spans)]))


def test_rows_may_be_columns_of_wider_ones(place: Place) -> None:
    product, wide = MatrixProduct(place, packed(Kind.BF16).weight(), None), random(9, 200)

    assert torch.equal(product(wide[:, 70:134], 9), product(wide[:, 70:134].clone(), 9))
