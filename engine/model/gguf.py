"""What makes `transformers` read GGUF files in a tenth of the time."""

import functools
from collections.abc import Container, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from unittest.mock import patch

import gguf
import numpy as np
from numpy.typing import NDArray
from transformers import modeling_gguf_pytorch_utils as transformers_gguf
from transformers.integrations import gguf as transformers_integration
from transformers.integrations.gguf import reader as transformers_reader

from engine.model.gguf_reader import GgufFile, GgufTensor, Strings, Value
from engine.model.gguf_types import size_of_block


@dataclass(frozen=True, slots=True)
class _Field:
    """A value of the metadata, as `gguf.GGUFReader` has them: the parts that `data` points to are the value's."""

    parts: Sequence[object]
    data: range = range(1)
    types: tuple[()] = ()  # `_as_it_is` asks for none


@dataclass(frozen=True, slots=True)
class _Tensor:
    """A tensor, as `gguf.GGUFReader` has them."""

    name: str
    tensor_type: gguf.GGMLQuantizationType
    data: NDArray[np.uint8]  # [..., bytes of a row]


class _QuickReader:
    """What `transformers` asks of a `gguf.GGUFReader`, from our own reader."""

    def __init__(self, file: GgufFile) -> None:
        self.fields = {key: _field(value) for key, value in file.metadata.items()}
        self.tensors = [_tensor(tensor) for tensor in file.tensors.values()]


def _field(value: Value) -> _Field:
    """The field of a value. A list is one part: that spares a call for each of its items.

    Of strings it has their number alone, which is all that is asked for here.
    """
    if isinstance(value, list) and len(value) == 1:
        return _Field(value)
    return _Field([range(len(value)) if isinstance(value, Strings) else value])


def _tensor(tensor: GgufTensor) -> _Tensor:
    values, size = size_of_block(tensor.type)
    shape = (*tensor.shape[:-1], tensor.shape[-1] // values * size)
    return _Tensor(tensor.name, gguf.GGMLQuantizationType(tensor.type), tensor.data.reshape(shape))


def _as_it_is(value: object, _types: object) -> object:
    return value


def _metadata(file: GgufFile, string_arrays: Container[str] = ()) -> tuple[dict[str, object], tuple[str, ...]]:
    """As `read_gguf_metadata` of `transformers`: strings that nobody asks for are their number."""
    metadata: dict[str, object] = dict(file.metadata)
    for key, value in file.metadata.items():
        if isinstance(value, Strings):
            metadata[key] = value.read() if key in string_arrays else len(value)
    return metadata, tuple(file.tensors)


def _without_bar(items: Iterable[object], **_: object) -> Iterable[object]:
    return items


@contextmanager
def quick_gguf() -> Iterator[None]:
    """While it lasts, `transformers` reads GGUF files through our reader; on one thread at a time.

    The default model's config and weights took 12 s without. Most of it went into slices of a memory map and
    into turning each of 100,000 strings from an array of numbers into text, twice, and 4 s into one table of
    tensor names, built anew for each of 397 submodules.
    """
    opened = functools.cache(lambda path: GgufFile(Path(path)))

    def read_metadata(path: str, string_arrays: Container[str] = ()) -> tuple[dict[str, object], tuple[str, ...]]:
        return _metadata(opened(path), string_arrays)

    with ExitStack() as replaced:
        replaced.enter_context(patch.object(gguf, "GGUFReader", lambda path: _QuickReader(opened(path))))
        replaced.enter_context(patch.object(transformers_gguf, "_gguf_parse_value", _as_it_is))
        for module in (transformers_reader, transformers_integration):
            replaced.enter_context(patch.object(module, "read_gguf_metadata", read_metadata))
        replaced.enter_context(patch.object(gguf, "get_tensor_name_map", functools.cache(gguf.get_tensor_name_map)))
        replaced.enter_context(patch.object(transformers_gguf, "tqdm", _without_bar))
        yield
