"""Matrices packed once, in the bits that they have, for the native kernels."""

from collections.abc import Mapping
from dataclasses import dataclass

from torch import Tensor

from engine.model.encoding import Encoded
from engine.model.kernels.native import Kind, Library, Weight

LANES = 16
NO_BLOCK = 32  # what matrices without scales say for the inputs that share one


@dataclass(frozen=True, slots=True)
class Matrix:
    """A packed matrix [outputs, inputs]; `data` is uint8 [panels, panel bytes], as pack.h has it."""

    data: Tensor
    outputs: int
    inputs: int
    kind: Kind
    block: int
    has_min: bool

    @property
    def num_bytes(self) -> int:
        """What it takes in memory."""
        return self.data.numel()

    def weight(self) -> Weight:
        """The matrix as an instruction names it; valid while this object lives."""
        return Weight(
            data=self.data.data_ptr(),
            panel_bytes=self.data.shape[1],
            outputs=self.outputs,
            inputs=self.inputs,
            kind=self.kind,
            block=self.block,
            has_min=self.has_min,
        )


def pack(library: Library, encoded: Encoded) -> Matrix:
    """Pack a plain matrix."""
    block = encoded.block or NO_BLOCK
    has_min = encoded.minima is not None
    panel_bytes = library.panel_bytes(encoded.kind, encoded.inputs, block, has_min=has_min)
    data = library.slab.take(-(-encoded.outputs // LANES), panel_bytes)
    matrix = Matrix(data, encoded.outputs, encoded.inputs, encoded.kind, block, has_min)
    scales, minima = (None if part is None else part.ctypes.data for part in (encoded.scales, encoded.minima))
    library.pack(matrix.weight(), encoded.values.ctypes.data, scales, minima)
    return matrix


NAMES = {Kind.F32: "float32", Kind.F16: "float16", Kind.BF16: "bfloat16", Kind.Q8: "int8", Kind.Q4: "int4"}


def describe_bits(num_bytes: Mapping[Kind, int]) -> str:
    """The bits that matrices are kept in, those of most bytes first: for people."""
    kinds = sorted(num_bytes, key=lambda kind: -num_bytes[kind])
    return "+".join(NAMES[kind] for kind in kinds)
