"""Runs single instructions over buffers that tests fill and read."""

from array import array
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from engine.model.encoding import Encoded
from engine.model.kernels.builder import Builder
from engine.model.kernels.library import library
from engine.model.kernels.native import Buffer, Format, Kind, Level, Library, Step

LEVELS = library().levels if library() else ()  # type: ignore[union-attr]  # the same call twice
FLOAT_LEVELS = tuple(level for level in LEVELS if level is not Level.AMX)  # they give equal bits


def the_library() -> Library:
    """The native library, which every machine that runs these tests must have."""
    loaded = library()
    assert loaded is not None, "the native kernels were not built, or this CPU has no AVX2"
    return loaded


@dataclass(frozen=True, slots=True)
class Rows:
    """A buffer of a program and its memory, which begins as ones in every bit: no number in any format."""

    number: int
    memory: Tensor  # [rows, stride] uint8
    width: int
    format: Format

    def padded(self) -> Tensor:
        """What the rows hold, padding included, [rows, padded width] float32."""
        if self.format is Format.PLAIN:
            return self.memory.view(torch.float32)
        high, low = self.memory.view(torch.bfloat16).float().chunk(2, dim=1)
        return high + low

    def values(self) -> Tensor:
        """What the rows hold, [rows, width] float32."""
        return self.padded()[:, : self.width]

    def padding(self) -> Tensor:
        """What lies behind the rows' values."""
        return self.padded()[:, self.width :]


class Machine(Builder):
    """A program of a few instructions, and the threads that run it."""

    def __init__(self, level: Level, *, num_threads: int = 1, max_rows: int = 64) -> None:
        super().__init__(level, max_rows=max_rows)
        self._num_threads = num_threads

    def rows(self, values: Tensor, format: Format = Format.PLAIN) -> Rows:
        """A buffer that holds `values` [rows, width]."""
        rows = self.room(len(values), values.shape[1], format)
        rows.memory.zero_()
        if format is Format.PLAIN:
            rows.padded()[:, : rows.width] = values
            return rows
        high, low = rows.memory.view(torch.bfloat16).chunk(2, dim=1)
        high[:, : rows.width] = values
        low[:, : rows.width] = values - high[:, : rows.width].float()
        return rows

    def room(self, num_rows: int, width: int, format: Format = Format.PLAIN) -> Rows:
        """A buffer that holds no numbers yet."""
        number = self.buffer(width, format)
        memory = torch.full((num_rows, self._buffers[number].stride_bytes), 0xFF, dtype=torch.uint8)
        self.keep(memory)
        self._buffers[number] = Buffer(memory.data_ptr(), memory.shape[1], width, format)
        return Rows(number, memory, width, format)

    def run(self, num_rows: int, *, ids: Sequence[int] = (), logit_rows: Sequence[int] = ()) -> None:
        """Run the program once."""
        built = self.finish()
        arrays = [array("i", values) for values in (ids, range(num_rows), logit_rows)]
        names = ("ids", "positions", "logit_rows")
        addresses = {name: values.buffer_info()[0] for name, values in zip(names, arrays, strict=True)}
        step = Step(num_rows=num_rows, num_logit_rows=len(logit_rows), **addresses)
        with opened(self._num_threads) as pool:
            the_library().run(pool, self.level, built.program, step)


@contextmanager
def opened(num_threads: int) -> Iterator[int]:
    """Threads of the library's, by their handle."""
    pool = the_library().open_pool(num_threads)
    yield pool
    the_library().close_pool(pool)


def random_matrix(kind: Kind, outputs: int, inputs: int, *, has_min: bool = False, seed: int = 0) -> Encoded:
    """A matrix of that kind; integers in blocks of 32, or of 16 where only those fit."""
    generator = np.random.default_rng(seed)
    if kind in (Kind.F32, Kind.F16):
        return Encoded(
            kind, generator.standard_normal((outputs, inputs)).astype(np.float32 if kind is Kind.F32 else np.float16)
        )
    if kind is Kind.BF16:
        numbers = torch.from_numpy(generator.standard_normal((outputs, inputs)))
        return Encoded(kind, numbers.bfloat16().view(torch.uint16).numpy())
    block = 32 if inputs % 32 == 0 else 16
    parts = [generator.uniform(0.01, 0.1, (outputs, inputs // block)).astype(np.float16) for _ in range(2)]
    low, high, dtype = (0, 16, np.uint8) if kind is Kind.Q4 else (-128, 128, np.int8)
    values = generator.integers(low, high, (outputs, inputs)).astype(dtype)
    return Encoded(kind, values, parts[0], -parts[1] if has_min else None)


def same_bits(first: Tensor, second: Tensor) -> bool:
    """Whether two float32 tensors are equal to the bit."""
    return torch.equal(first.contiguous().view(torch.int32), second.contiguous().view(torch.int32))
