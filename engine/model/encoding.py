"""A matrix in the bits that it is stored in: floats, or integers in blocks with a scale each."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from engine.model.kernels.native import Kind

Floats16 = NDArray[np.float16]
DTYPES = {Kind.F32: np.float32, Kind.F16: np.float16, Kind.BF16: np.uint16, Kind.Q8: np.int8, Kind.Q4: np.uint8}


@dataclass(frozen=True, slots=True)
class Encoding:
    """What two matrices must share to be one."""

    kind: Kind
    block: int | None  # inputs that share a scale, 16 or 32; None for floats
    has_min: bool


@dataclass(frozen=True, slots=True, eq=False)
class Encoded:
    """A plain matrix, as the native `pack` takes it. Integers stand for scale × integer + minimum."""

    kind: Kind
    values: NDArray[np.generic]  # [outputs, inputs]; bfloat16 as uint16, q4 one value of 0 … 15 a byte
    scales: Floats16 | None = None  # [outputs, inputs / block], of q8 and q4
    minima: Floats16 | None = None  # [outputs, inputs / block], of q8 and q4 that have them

    def __post_init__(self) -> None:
        assert self.values.dtype == DTYPES[self.kind], f"{self.kind.name} values can't be {self.values.dtype}"
        assert (self.scales is not None) == (self.kind in (Kind.Q8, Kind.Q4)), "integers have scales, floats don't"
        assert self.block in (None, 16, 32), f"a block of {self.block} inputs is no block"
        assert self.minima is None or (self.scales is not None and self.minima.shape == self.scales.shape)
        assert all(array.flags.c_contiguous for array in self._arrays()), "the native code reads whole rows"

    @property
    def outputs(self) -> int:
        """Rows."""
        return len(self.values)

    @property
    def inputs(self) -> int:
        """Columns."""
        return self.values.size // self.outputs

    @property
    def block(self) -> int | None:
        """Inputs that share a scale; None for floats."""
        return None if self.scales is None else self.inputs // self.scales.shape[1]

    @property
    def encoding(self) -> Encoding:
        """How it is stored."""
        return Encoding(self.kind, self.block, has_min=self.minima is not None)

    def rows(self, chosen: NDArray[np.intp] | slice) -> "Encoded":
        """These rows, in this order; a slice shares its memory."""
        scales = None if self.scales is None else self.scales[chosen]
        minima = None if self.minima is None else self.minima[chosen]
        return Encoded(self.kind, self.values[chosen], scales, minima)

    def dense(self) -> Tensor:
        """What it stands for, [outputs, inputs] float32, to the bit as the kernels decode it."""
        if self.kind is Kind.BF16:
            return torch.from_numpy((self.values.astype(np.uint32) << 16).view(np.float32))
        values = self.values.astype(np.float32)
        if self.scales is not None:
            blocks = values.reshape(*self.scales.shape, -1)
            blocks *= self.scales[..., None]  # exact: 11 bits by 8
            if self.minima is not None:
                blocks += self.minima[..., None]
        return torch.from_numpy(values)

    def _arrays(self) -> list[NDArray[np.generic]]:
        return [array for array in (self.values, self.scales, self.minima) if array is not None]


def stack(parts: Sequence[Encoded]) -> Encoded:
    """Matrices of one encoding and the same inputs, one below the other."""
    encodings = {part.encoding for part in parts}
    assert len(encodings) == 1, f"matrices of different encodings can't be stacked: {encodings}"
    scales = [part.scales for part in parts if part.scales is not None]
    minima = [part.minima for part in parts if part.minima is not None]
    return Encoded(
        parts[0].kind,
        np.concatenate([part.values for part in parts]),
        np.concatenate(scales) if scales else None,
        np.concatenate(minima) if minima else None,
    )


def encode(matrix: Tensor) -> Encoded:
    """A float matrix [outputs, inputs] in its own type: float32, float16 or bfloat16. Shares its memory."""
    plain = matrix.detach().contiguous()
    if plain.dtype is torch.bfloat16:
        return Encoded(Kind.BF16, plain.view(torch.uint16).numpy())
    return Encoded(Kind.F16 if plain.dtype is torch.float16 else Kind.F32, plain.numpy())
