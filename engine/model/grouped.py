"""Rows in groups, each group with a matrix of its own: pairs of rows and their experts, or rows by head."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Protocol

import torch
from torch import Tensor, nn

from engine.model.linear import RowLinear


class Grouped(Protocol):
    """A linear layer for each group, in torch's operators or in the native kernels."""

    def __call__(self, rows: Tensor, starts: Sequence[int]) -> Tensor:
        """Rows [n, inputs] in the order of their groups -> [n, outputs].

        Group g's rows are those from `starts[g]` up to `starts[g + 1]`, so there is one more start than groups.
        """
        ...


class GroupMaker(Protocol):
    """What makes a layer of matrices [groups, outputs, inputs] and biases [groups, outputs]."""

    def __call__(self, weights: Tensor, biases: Tensor | None) -> nn.Module:
        """The layer, which is a `Grouped`; the matrices may be any view."""
        ...


class RowGroups(nn.Module):
    """One RowLinear a group. Shares the memory of the matrices."""

    def __init__(self, weights: Tensor, biases: Tensor | None) -> None:
        super().__init__()
        transposed = not weights[0].is_contiguous()
        self.linears = nn.ModuleList(
            RowLinear(
                _fixed(weight.t() if transposed else weight),
                None if biases is None else _fixed(biases[group]),
                transposed=transposed,
            )
            for group, weight in enumerate(weights)
        )

    def forward(self, rows: Tensor, starts: Sequence[int]) -> Tensor:
        """As `Grouped`."""
        groups = zip(self.linears, pairwise(starts), strict=True)
        return torch.cat([linear(rows[first:end]) for linear, (first, end) in groups if first < end])


def _fixed(values: Tensor) -> nn.Parameter:
    return nn.Parameter(values, requires_grad=False)
