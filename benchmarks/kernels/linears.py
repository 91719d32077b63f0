"""Linear layers of the native library, run alone: a program of as many layers as a model's weights take."""

from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn import functional

from benchmarks.kernels.programs import STRIP, Machine, WrongResult, buffer_of, padded, rows_of
from engine.model.encoding import Encoded
from engine.model.kernels.matrix import Matrix, pack
from engine.model.kernels.native import Instruction, Kind, Level, Library, Linear, Op, Step

SCALE = 0.01  # of quantized values
MAX_ERROR = 0.05  # of a result, in standard deviations of all results: more than 8-bit activations cost


@dataclass(frozen=True)
class Storage:
    """How a matrix is stored: its name in a table, and as the library has it."""

    name: str
    kind: Kind
    block: int | None = None
    has_min: bool = False


STORAGES = (
    Storage("float32", Kind.F32),
    Storage("bfloat16", Kind.BF16),
    Storage("8 bits (Q8_0)", Kind.Q8, 32),
    Storage("4 bits (Q4_0)", Kind.Q4, 32),
    Storage("4 bits with minima (Q4_1)", Kind.Q4, 32, has_min=True),
)


def random_matrix(storage: Storage, outputs: int, inputs: int) -> Encoded:
    """A matrix of random values, the same each time."""
    values = _values(storage.kind, (outputs, inputs))
    if storage.block is None:
        return Encoded(storage.kind, values)
    blocks = np.full((outputs, inputs // storage.block), SCALE, dtype=np.float16)
    return Encoded(storage.kind, values, blocks, blocks if storage.has_min else None)


def _values(kind: Kind, shape: tuple[int, int]) -> NDArray[np.generic]:
    random = np.random.default_rng(7)
    match kind:
        case Kind.F32:
            return random.standard_normal(shape, dtype=np.float32)
        case Kind.F16:
            return random.standard_normal(shape, dtype=np.float32).astype(np.float16)
        case Kind.BF16:
            high: NDArray[np.uint16] = (random.standard_normal(shape, dtype=np.float32).view(np.uint32) >> 16).astype(
                np.uint16
            )
            return high
        case Kind.Q8:
            return random.integers(-127, 128, shape, dtype=np.int8)
        case Kind.Q4:
            return random.integers(0, 16, shape, dtype=np.uint8)


class Layers:
    """Layers of one shape and storage whose matrices lie apart, together about as large as `num_bytes`."""

    def __init__(self, library: Library, storage: Storage, outputs: int, inputs: int, num_bytes: int) -> None:
        self._storage = storage
        self._plain = random_matrix(storage, outputs, inputs)
        first = pack(library, self._plain)
        self._matrices: list[Matrix] = [first]
        for _ in range(num_bytes // first.num_bytes - 1):
            self._matrices.append(replace(first, data=first.data.clone()))
        self.layer_bytes = first.num_bytes

    def seconds(self, machine: Machine, num_rows: int, tries: int) -> float:
        """The shortest time of one layer on so many rows.

        Raises:
            WrongResult: where the last layer's result is not the product.
        """
        outputs, inputs = self._plain.outputs, self._plain.inputs
        split = machine.level is Level.AMX and self._storage.kind is not Kind.F32
        plain = torch.randn(num_rows, inputs)
        rows = rows_of(functional.pad(plain, (0, padded(inputs, STRIP) - inputs)), split=split)
        results = torch.zeros(num_rows, padded(outputs, STRIP))
        buffers = (buffer_of(rows, inputs, split=split), buffer_of(results, outputs))
        layers = [linear(matrix) for matrix in self._matrices]
        seconds = machine.seconds(layers, buffers, Step(num_rows=num_rows), tries)
        self._check(results[:, :outputs], plain)
        return seconds

    def _check(self, results: torch.Tensor, rows: torch.Tensor) -> None:
        expected = functional.linear(rows, self._plain.dense())
        error = float((results - expected).abs().max() / expected.std())
        if not error < MAX_ERROR:
            raise WrongResult(f"a linear layer in {self._storage.name} is wrong by {error:.2g} standard deviations")


def linear(matrix: Matrix) -> Instruction:
    """Buffer 0 through the layer to buffer 1."""
    instruction = Instruction(op=Op.LINEAR)
    instruction.body.linear = Linear(input=0, output=1, scale=1.0, weight=matrix.weight())
    return instruction
