"""A GGUF file's tensors as a model's parameters, each decoded when it is asked for."""

from collections.abc import Iterator, Set as AbstractSet

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from engine.errors import ModelError
from engine.model.encoding import Encoded, stack
from engine.model.gguf_blocks import decode
from engine.model.gguf_names import FAMILIES, name_parameters
from engine.model.gguf_reader import GgufFile, GgufTensor
from engine.model.precision import encode_as


def find_weights(file: GgufFile) -> "GgufWeights | None":
    """The file's parameters; None where its architecture takes more than new names to read."""
    places = name_parameters(file.architecture, file.tensors)
    return None if places is None else GgufWeights(file, places)


class GgufWeights:
    """Implements `engine.model.weights.WeightSource` over a file; each call decodes anew."""

    def __init__(self, file: GgufFile, places: dict[str, tuple[str, ...]]) -> None:
        self._file = file
        self._family = FAMILIES[file.architecture]
        self._places = places  # a parameter's tensors in the file

    def names(self) -> AbstractSet[str]:
        """What can be asked for; the head is not among them where it is the embedding."""
        return self._places.keys()

    def place(self, name: str) -> str:
        """What the file calls a parameter that is one tensor."""
        (place,) = self._places[name]
        return place

    def shape(self, name: str) -> tuple[int, ...]:
        """The shape of a parameter that is one tensor."""
        return self._file.tensors[self.place(name)].shape

    def encoded(self, name: str) -> Encoded:
        """A matrix [outputs, inputs] in the bits that the file has."""
        (place,) = self._places[name]
        tensor = self._file.tensors[place]
        if len(tensor.shape) > 2:  # noqa: PLR2004  # outputs and inputs
            raise ModelError(f"{_described(tensor)}, and must be a matrix")
        shape = (1, *tensor.shape)[-2], tensor.shape[-1]  # a gate of one output is stored as a vector
        matrix = decode(tensor.type, tensor.data, shape)
        order = self._order(place, matrix.outputs)
        return matrix if order is None else matrix.rows(order)

    def experts(self, name: str) -> tuple[Encoded, ...]:
        """The matrices of each expert; gates stand above ups."""
        stored = [self._file.tensors[place] for place in self._places[name]]
        if len({tensor.shape for tensor in stored}) > 1:
            raise ModelError(f"{' and '.join(_described(tensor) for tensor in stored)}, which differ")
        tensors = [_matrices(tensor) for tensor in stored]
        return tuple(_together(parts) for parts in zip(*tensors, strict=True))

    def vector(self, name: str) -> Tensor:
        """A norm's weight or a bias, float32."""
        (place,) = self._places[name]
        tensor = self._file.tensors[place]
        if len(tensor.shape) != 1:
            raise ModelError(f"{_described(tensor)}, and must be a vector")
        values = decode(tensor.type, tensor.data, (1, tensor.shape[-1])).dense().view(-1).clone()
        if place.endswith("norm.weight"):
            values -= self._family.norm_offset
        order = self._order(place, len(values))
        return values if order is None else values[torch.from_numpy(order)]

    def _order(self, place: str, rows: int) -> NDArray[np.intp] | None:
        """The row of the tensor that each row of the parameter is; None where they are the same."""
        if not self._family.turned or not (".attn_q." in place or ".attn_k." in place):
            return None
        field, heads = "head_count", self._count("head_count")
        if ".attn_k." in place:
            field, heads = "head_count_kv", self._count("head_count_kv", otherwise=heads)
        if rows % (2 * heads):
            named = f"{self._file.architecture}.attention.{field} ({heads})"
            raise ModelError(f"{place} has {rows} rows, which don't make {named} heads of two halves each")
        return np.arange(rows).reshape(heads, -1, 2).swapaxes(1, 2).reshape(-1)

    def _count(self, field: str, *, otherwise: int | None = None) -> int:
        key = f"{self._file.architecture}.attention.{field}"
        count = self._file.metadata.get(key, otherwise)
        if not isinstance(count, int) or count < 1:
            raise ModelError(f"{self._file.path.name}: {key} can't be {count}")
        return count


def _matrices(tensor: GgufTensor) -> Iterator[Encoded]:
    """The matrices of a tensor [experts, outputs, inputs]."""
    if len(tensor.shape) != 3:  # noqa: PLR2004  # experts, outputs, inputs
        raise ModelError(f"{_described(tensor)}, and must have a matrix for each expert")
    experts, outputs, inputs = tensor.shape
    for data in tensor.data.reshape(experts, -1):
        yield decode(tensor.type, data, (outputs, inputs))


def _described(tensor: GgufTensor) -> str:
    return f"{tensor.name} has the shape {list(tensor.shape)}"


def _together(parts: tuple[Encoded, ...]) -> Encoded:
    """One below the other; in bfloat16 where the file holds them in different bits."""
    if len({part.encoding for part in parts}) > 1:
        parts = tuple(encode_as(part, "bfloat16") for part in parts)
    return stack(parts)
