"""A GGUF file, mapped: what it says of its model, and its tensors as they lie in it."""

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from engine.errors import ModelError
from engine.model.gguf_types import size_of_block

Scalar: TypeAlias = int | float | bool | str
Value: TypeAlias = "Scalar | list[Scalar] | Strings"
_Place: TypeAlias = tuple[str, tuple[int, ...], int, int]  # a tensor's name, shape, type, and first byte of the data

VERSIONS = (2, 3)
DEFAULT_ALIGNMENT = 32
STRING, ARRAY = 8, 9
FORMATS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}

_length = struct.Struct("<Q").unpack_from


@dataclass(frozen=True, slots=True)
class Strings:
    """A list of strings, such as a vocabulary, that is decoded when it is asked for."""

    _data: memoryview
    _count: int

    def __len__(self) -> int:
        return self._count

    def read(self) -> list[str]:
        """All of them."""
        data, at, texts = self._data, 0, []
        for _ in range(self._count):
            end = at + 8 + _length(data, at)[0]
            texts.append(str(data[at + 8 : end], "utf-8"))
            at = end
        return texts


@dataclass(frozen=True, slots=True)
class GgufTensor:
    """A tensor as it lies in the file."""

    name: str
    shape: tuple[int, ...]  # in torch's order: outputs before inputs
    type: int  # of GGML
    data: NDArray[np.uint8]  # a view into the mapped file


class GgufFile:
    """The metadata and the tensors of a file. The file stays mapped as long as this or a tensor of it is held."""

    def __init__(self, path: Path) -> None:
        """Read all but the tensors' data; raises ModelError where the file isn't whole, or isn't GGUF."""
        self.path = path
        if path.stat().st_size < 24:  # noqa: PLR2004  # the fixed part of the header
            raise ModelError(f"{path.name} is no GGUF file: it has {path.stat().st_size} bytes")
        data = np.memmap(path, mode="r").view(np.ndarray)  # slices of a plain array cost a fifth of a memmap's
        reader = _Reader(data.data)
        try:
            self.metadata, self.tensors = _read(reader, data, path.name)
        except (struct.error, UnicodeDecodeError) as error:
            raise ModelError(f"{path.name} is cut short or damaged at byte {reader.at} of {len(data)}") from error

    @property
    def architecture(self) -> str:
        """What GGUF calls the structure."""
        return self.text("general.architecture") or ""

    def text(self, key: str) -> str | None:
        """A text of the metadata; None where there is none."""
        value = self.metadata.get(key)
        return value if isinstance(value, str) else None


class _Reader:
    """A place in the file, and what can be read there."""

    def __init__(self, data: memoryview) -> None:
        self.at = 0
        self._data = data

    def scalars(self, letters: str) -> tuple[Scalar, ...]:
        """Numbers, one of each letter of `struct`."""
        found = struct.unpack_from(f"<{letters}", self._data, self.at)
        self.at += struct.calcsize(f"<{letters}")
        return found

    def integer(self, letter: str) -> int:
        """One number."""
        (number,) = self.scalars(letter)
        assert isinstance(number, int), f"{letter} is the letter of an integer"
        return number

    def text(self) -> str:
        """A length and a text."""
        length = self.integer("Q")
        if length > len(self._data) - self.at:
            raise struct.error(f"a text of {length} bytes")
        self.at += length
        return str(self._data[self.at - length : self.at], "utf-8")

    def strings(self, count: int) -> Strings:
        """Texts, of which only the lengths are read."""
        start = at = self.at
        for _ in range(count):
            at += 8 + _length(self._data, at)[0]
        self.at = at
        return Strings(self._data[start:at], count)

    def value(self) -> Value:
        """A type and a value."""
        kind = self.integer("I")
        if kind == STRING:
            return self.text()
        if kind != ARRAY:
            return self.scalars(_letter(kind))[0]
        element, count = self.integer("I"), self.integer("Q")
        return self.strings(count) if element == STRING else list(self.scalars(f"{count}{_letter(element)}"))


def _letter(kind: int) -> str:
    if kind not in FORMATS:
        raise struct.error(f"a value of type {kind}")
    return FORMATS[kind]


def _read(reader: _Reader, data: NDArray[np.uint8], file: str) -> tuple[dict[str, Value], dict[str, GgufTensor]]:
    if (magic := data[:4].tobytes()) != b"GGUF":
        raise ModelError(f"{file} is no GGUF file: it begins with {magic!r}")
    reader.at = len(magic)
    version, num_tensors, num_values = reader.integer("I"), reader.integer("Q"), reader.integer("Q")
    if version not in VERSIONS:
        raise ModelError(f"{file} is GGUF of version {version}, and only {VERSIONS} are read, in little-endian order")
    metadata = {reader.text(): reader.value() for _ in range(num_values)}
    places = [_place(reader) for _ in range(num_tensors)]
    alignment = metadata.get("general.alignment", DEFAULT_ALIGNMENT)
    if not isinstance(alignment, int) or alignment < 1:
        raise ModelError(f"{file}: general.alignment can't be {alignment}")
    start = _aligned(reader.at, alignment)
    _check_places(places, alignment)
    return metadata, {name: _tensor(data, start + at, name, shape, type_) for name, shape, type_, at in places}


def _aligned(at: int, alignment: int) -> int:
    return -(-at // alignment) * alignment


def _check_places(places: Sequence[_Place], alignment: int) -> None:
    """Each tensor begins where the one before it ends: so no type or shape is another than was written."""
    expected = 0
    for name, shape, type_, at in sorted(places, key=lambda place: place[3]):
        values, size = size_of_block(type_)
        if not shape or 0 in shape or shape[-1] % values != 0:
            raise ModelError(f"the tensor {name} has the shape {list(shape)}, in blocks of {values} values")
        if at != expected:
            raise ModelError(
                f"the tensor {name} begins at byte {at} of the data, and by the sizes of all at {expected}"
            )
        expected = _aligned(at + prod(shape) // values * size, alignment)


def _place(reader: _Reader) -> _Place:
    """A tensor's name, shape, type, and where it begins after the header."""
    name = reader.text()
    shape = tuple(reader.integer("Q") for _ in range(reader.integer("I")))
    return name, shape[::-1], reader.integer("I"), reader.integer("Q")


def _tensor(data: NDArray[np.uint8], start: int, name: str, shape: tuple[int, ...], type_: int) -> GgufTensor:
    values, size = size_of_block(type_)
    end = start + prod(shape) // values * size
    if end > len(data):
        raise ModelError(f"the tensor {name} ends at byte {end} of a file of {len(data)}: it is cut short")
    return GgufTensor(name, shape, type_, data[start:end])
