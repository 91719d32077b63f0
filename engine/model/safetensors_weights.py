"""The tensors of a folder of safetensors as a model's parameters, mapped and read when they are asked for."""

import json
from collections.abc import Set as AbstractSet
from pathlib import Path

from safetensors import SafetensorError, safe_open
from torch import Tensor

from engine.errors import ModelError
from engine.model.encoding import Encoded, encode

WHOLE = "model.safetensors"
INDEX = "model.safetensors.index.json"
FLOATS = frozenset({"F32", "F16", "BF16"})
HEAD = "lm_head.weight"


class SafetensorsWeights:
    """Implements `engine.model.weights.WeightSource` over a folder whose tensors have the parameters' names."""

    def __init__(self, tensors: dict[str, safe_open]) -> None:
        self._tensors = tensors  # the open file that each lies in

    def names(self) -> AbstractSet[str]:
        """What can be asked for; the head is not among them where it is the embedding."""
        return self._tensors.keys()

    def place(self, name: str) -> str:
        """What the file calls a parameter: its own name."""
        return name

    def shape(self, name: str) -> tuple[int, ...]:
        """Its shape, of which only the header is read."""
        return tuple(self._tensors[name].get_slice(name).get_shape())

    def encoded(self, name: str) -> Encoded:
        """A matrix [outputs, inputs] in its own type, where it lies in the file."""
        return encode(self._tensor(name))

    def experts(self, name: str) -> tuple[Encoded, ...]:
        """The matrices of a parameter [experts, outputs, inputs]."""
        return tuple(encode(matrix) for matrix in self._tensor(name))

    def vector(self, name: str) -> Tensor:
        """A norm's weight or a bias, float32."""
        return self._tensor(name).float()

    def _tensor(self, name: str) -> Tensor:
        tensor: Tensor = self._tensors[name].get_tensor(name)
        return tensor


def find_safetensors(folder: Path, *, tied: bool) -> SafetensorsWeights | None:
    """The folder's tensors; None where it has none, or not only floats.

    `tied` says that the head is the embedding: a copy of it in a file is passed over. Raises ModelError where a
    file can't be read, with its name.
    """
    tensors: dict[str, safe_open] = {}
    for file in _files(folder):
        opened = _open(file)
        tensors |= dict.fromkeys(opened.keys(), opened)
    if tied:
        tensors.pop(HEAD, None)
    elif HEAD not in tensors:
        return None
    if not tensors or any(file.get_slice(name).get_dtype() not in FLOATS for name, file in tensors.items()):
        return None
    return SafetensorsWeights(tensors)


def _files(folder: Path) -> list[Path]:
    """The files that hold the model: those of the index where there is one."""
    index = folder / INDEX
    if not index.is_file():
        return [folder / WHOLE] if (folder / WHOLE).is_file() else []
    named = _named(index)
    if outside := sorted(name for name in named if Path(name).name != name):
        raise ModelError(f"{INDEX} names {outside[0]}, which is not in its folder")
    return [folder / name for name in sorted(named)]


def _named(index: Path) -> set[str]:
    try:
        return {str(name) for name in json.loads(index.read_text(encoding="utf-8"))["weight_map"].values()}
    except (ValueError, KeyError, TypeError, AttributeError) as error:  # no JSON, or JSON of another shape
        raise ModelError(f"{INDEX} has no weight_map that says which file holds each tensor") from error


def _open(file: Path) -> safe_open:
    try:
        return safe_open(file, framework="pt")
    except (SafetensorError, OSError) as error:
        raise ModelError(f"{file.name} can't be read: {error}") from error
