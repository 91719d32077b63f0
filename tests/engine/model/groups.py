"""Matrices by group on torch and on the native kernels, and what they should give."""

import functools
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise

import torch
from torch import Tensor
from torch.nn import functional

from engine.model.grouped import GroupMaker, RowGroups
from engine.model.kernels.choice import Kernels
from engine.model.kernels.product import Place
from engine.model.linear import BATCH_LOADS, RowLinear, settle_rows
from engine.model.packed_groups import PackedGroups
from engine.model.precision import Precision, encode_as
from tests.engine.model.kernels.machine import the_library

PATHS = [None, *(Kernels(the_library(), level) for level in the_library().levels)]


@contextmanager
def group_maker(kernels: Kernels | None, precision: Precision = "float32") -> Iterator[GroupMaker]:
    """What makes grouped layers on torch, or on these kernels."""
    if kernels is None:
        yield settled
        return
    pool = kernels.library.open_pool(2)
    yield functools.partial(
        PackedGroups, place=Place(kernels, pool), reencode=functools.partial(encode_as, precision=precision)
    )
    kernels.library.close_pool(pool)


def settled(weights: Tensor, biases: Tensor | None) -> RowGroups:
    """Layers in torch's operators, their row counts measured as `Forward` does."""
    groups = RowGroups(weights, biases)
    settle_rows([linear for linear in groups.linears if isinstance(linear, RowLinear)], loads=BATCH_LOADS)
    return groups


def plain_groups(weights: Tensor, biases: Tensor | None, rows: Tensor, starts: Sequence[int]) -> Tensor:
    """Each group's rows times its matrix, one group after the other."""
    parts = [
        functional.linear(rows[first:end], weights[group], None if biases is None else biases[group])
        for group, (first, end) in enumerate(pairwise(starts))
    ]
    return torch.cat(parts)
