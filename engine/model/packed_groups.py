"""A matrix for each group of rows, packed in its bits for the native kernels."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

from engine.model.encoding import Encoded, encode
from engine.model.kernels import ops
from engine.model.kernels.choice import Kernels
from engine.model.kernels.matrix import pack
from engine.model.kernels.native import Kind, Weight
from engine.model.parameters import alike


class PackedGroups(nn.Module):
    """A linear layer for each group of rows; shares nothing with the matrices that it is made of."""

    def __init__(
        self,
        weights: Tensor,
        biases: Tensor | None,
        *,
        kernels: Kernels,
        pool: int,
        reencode: Callable[[Encoded], Encoded],
    ) -> None:
        super().__init__()
        parts = alike([reencode(encode(weight.contiguous())) for weight in weights])
        self.matrices = [pack(kernels.library, part) for part in parts]
        array = (Weight * len(self.matrices))(*(matrix.weight() for matrix in self.matrices))
        self.weights = torch.frombuffer(bytearray(array), dtype=torch.uint8)
        self.biases = None if biases is None else biases.detach().float().contiguous()
        first = self.matrices[0]
        self.form = [first.outputs, first.inputs, int(first.kind is Kind.F32)]
        self.level, self.pool = int(kernels.level), pool

    def forward(self, rows: Tensor, starts: Sequence[int]) -> Tensor:
        """As `Grouped`."""
        out: Tensor = ops.grouped(
            rows.float(), list(starts), self.weights, self.biases, self.form, self.level, self.pool
        )
        return out.to(rows.dtype)
