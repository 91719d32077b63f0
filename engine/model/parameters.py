"""A decoder's parameters, read one by one and kept packed alone; each must have the size that the structure says."""

from collections import Counter
from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor

from engine.errors import ModelError
from engine.model.encoding import Encoded, stack
from engine.model.kernels.matrix import Matrix, pack
from engine.model.kernels.native import Kind, Library
from engine.model.precision import encode_as
from engine.model.structure import ExpertsData, LinearData, NormData
from engine.model.weights import WeightSource


class Parameters:
    """Reads from `source`; `reencode` turns a matrix into the bits that the operator chose."""

    def __init__(self, source: WeightSource, library: Library, reencode: Callable[[Encoded], Encoded]) -> None:
        self.num_bytes: Counter[Kind] = Counter()  # of all matrices, by how they are stored
        self._source = source
        self._library = library
        self._reencode = reencode

    def norm_weight(self, norm: NormData | None, width: int) -> Tensor | None:
        """A norm's weight [width] with what the model adds to it; None where there is none."""
        if norm is None or norm.weight is None:
            return None
        return self.vector(norm.weight, width).float() + norm.offset

    def norm_bias(self, norm: NormData, width: int) -> Tensor | None:
        """A norm's bias [width]; None where there is none."""
        return None if norm.bias is None else self.vector(norm.bias, width)

    def vector(self, name: str, width: int) -> Tensor:
        """A parameter [width] float32."""
        vector = self._source.vector(name)
        check_shape(name, tuple(vector.shape), (width,))
        return vector

    def bias(self, data: LinearData, outputs: int) -> Tensor | None:
        """A linear layer's biases [outputs], in the order of its outputs."""
        if not data.biases:
            return None
        bias = torch.cat([self._source.vector(name) for name in data.biases])
        check_shape(stack_name(data.biases), tuple(bias.shape), (outputs,))
        return bias if data.order is None else bias[list(data.order)]

    def matrices(self, data: LinearData, *, reencode: bool = True) -> list[Matrix]:
        """The layer's matrices: one, where all parts are held in the same bits."""
        parts = [self._source.encoded(name) for name in data.weights]
        if data.transposed:
            parts = [_transposed(part) for part in parts]
        if data.order is not None:
            parts = [part.rows(np.array(data.order)) for part in parts]
        encoded = alike([self._reencode(part) if reencode else part for part in parts])
        if len({part.encoding for part in encoded}) == 1:
            encoded = [stack(encoded)]
        return [self.packed(part) for part in encoded]

    def experts(self, feed: ExpertsData, name: str, *, interleaved: bool) -> list[Matrix]:
        """One matrix for each expert; `interleaved` ones have gates and ups in turns, which are put apart."""
        parts = []
        for expert in self._source.experts(name):
            part = _transposed(expert) if feed.transposed else expert
            if interleaved:
                turns = np.arange(part.outputs)
                part = part.rows(np.concatenate([turns[::2], turns[1::2]]))
            parts.append(self._reencode(part))
        return [self.packed(part) for part in alike(parts)]

    def packed(self, encoded: Encoded) -> Matrix:
        """Pack a matrix, and count its bytes."""
        matrix = pack(self._library, encoded)
        self.num_bytes[matrix.kind] += matrix.num_bytes
        return matrix

    def table(self, name: str) -> Matrix:
        """A matrix whose rows are looked up."""
        return self.packed(self._reencode(self._source.encoded(name)))

    def expert_biases(self, name: str, shape: tuple[int, int], *, interleaved: bool) -> Tensor:
        """One bias row for each expert, [experts, outputs], all gates before all ups."""
        biases = self._source.encoded(name).dense()
        check_shape(name, tuple(biases.shape), shape)
        return torch.cat([biases[:, ::2], biases[:, 1::2]], dim=1) if interleaved else biases


def stack_name(names: Sequence[str]) -> str:
    """What to call tensors that stand one below the other."""
    return names[0] if len(names) == 1 else f"the stack of {', '.join(names[:-1])} and {names[-1]}"


def check_shape(name: str, found: tuple[int, ...], wanted: tuple[int, ...]) -> None:
    """Native code reads as much as the structure says, so what is there must be that much."""
    if found != wanted:
        raise ModelError(f"{name} has the shape {list(found)}, and by the config it is {list(wanted)}")


def alike(parts: list[Encoded]) -> list[Encoded]:
    """Matrices that read the same rows: all float32 if one of them is, since tiles read other rows for the rest."""
    kinds = {part.kind for part in parts}
    if Kind.F32 not in kinds or len(kinds) == 1:
        return parts
    return [encode_as(part, "float32") for part in parts]


def _transposed(matrix: Encoded) -> Encoded:
    """A float matrix [inputs, outputs] the other way round."""
    assert matrix.scales is None, "blocks of integers lie along the inputs"
    return Encoded(matrix.kind, np.ascontiguousarray(matrix.values.T))
