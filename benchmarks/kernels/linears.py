"""Linear layers of the native library, run alone: a program of as many layers as a model's weights take."""

from dataclasses import dataclass

import torch
from torch.nn import functional

from benchmarks.kernels.programs import STRIP, Machine, buffer_of, padded, rows_of
from engine.model.kernels.native import Instruction, Kind, Level, Library, Linear, Op, Step, Weight

LANES = 16  # outputs of a panel
ALIGNMENT = 64
SCALE = 0.01  # of quantized values
MAX_ERROR = 0.05  # of a result, in standard deviations of all results; 8-bit activations have less


class WrongResult(Exception):
    """A kernel did not compute what it was timed for."""


@dataclass(frozen=True)
class Storage:
    """How a matrix is stored: its name in a table, and as the library has it."""

    name: str
    kind: Kind
    block: int = 0
    has_min: bool = False


STORAGES = (
    Storage("float32", Kind.F32),
    Storage("bfloat16", Kind.BF16),
    Storage("8 bits (Q8_0)", Kind.Q8, 32),
    Storage("4 bits (Q4_0)", Kind.Q4, 32),
    Storage("4 bits with minima (Q4_1)", Kind.Q4, 32, has_min=True),
)


class Layers:
    """Layers of one shape and storage whose matrices lie apart, together about as large as `num_bytes`."""

    def __init__(self, library: Library, storage: Storage, outputs: int, inputs: int, num_bytes: int) -> None:
        self.outputs, self.inputs, self._storage = outputs, inputs, storage
        panel_bytes = library.panel_bytes(storage.kind, inputs, storage.block, has_min=storage.has_min)
        self.layer_bytes = panel_bytes * padded(outputs, LANES) // LANES
        shape = (max(1, num_bytes // self.layer_bytes), padded(self.layer_bytes, ALIGNMENT))
        self._memory = torch.empty(shape, dtype=torch.uint8)
        self._weights = [self._weight(panel_bytes, memory) for memory in self._memory]
        self._values = self._random_values()
        self._pack(library)

    def _weight(self, panel_bytes: int, memory: torch.Tensor) -> Weight:
        how = self._storage
        return Weight(
            data=memory.data_ptr(),
            panel_bytes=panel_bytes,
            outputs=self.outputs,
            inputs=self.inputs,
            kind=how.kind,
            block=how.block,
            has_min=how.has_min,
        )

    def _random_values(self) -> torch.Tensor:
        shape = (self.outputs, self.inputs)
        match self._storage.kind:
            case Kind.F32:
                return torch.randn(shape)
            case Kind.F16:
                return torch.randn(shape).to(torch.float16)
            case Kind.BF16:
                return torch.randn(shape).to(torch.bfloat16)
            case Kind.Q8:
                return torch.randint(-127, 128, shape, dtype=torch.int8)
            case Kind.Q4:
                return torch.randint(0, 16, shape, dtype=torch.uint8)

    def _pack(self, library: Library) -> None:
        """Pack one matrix and copy it to the others: only where they lie has to differ."""
        how = self._storage
        blocks = torch.full((self.outputs, self.inputs // (how.block or self.inputs)), SCALE, dtype=torch.float16)
        scales, minima = blocks.data_ptr() if how.block else None, blocks.data_ptr() if how.has_min else None
        library.pack(self._weights[0], self._values.data_ptr(), scales, minima)
        self._memory[1:] = self._memory[0]

    def _matrix(self) -> torch.Tensor:
        """What the packed matrix stands for, in float32."""
        values = self._values.float()
        if not self._storage.block:
            return values
        scale = torch.tensor(SCALE, dtype=torch.float16).float()
        return values * scale + (scale if self._storage.has_min else 0)

    def seconds(self, machine: Machine, num_rows: int, tries: int) -> float:
        """The shortest time of one layer on so many rows.

        Raises:
            WrongResult: where the last layer's result is not the product.
        """
        split = machine.level is Level.AMX and self._storage.kind is not Kind.F32
        plain = torch.randn(num_rows, self.inputs)
        rows = rows_of(functional.pad(plain, (0, padded(self.inputs, STRIP) - self.inputs)), split=split)
        results = torch.zeros(num_rows, padded(self.outputs, STRIP))
        buffers = (buffer_of(rows, self.inputs, split=split), buffer_of(results, self.outputs))
        step = Step(num_rows=num_rows)
        seconds = machine.seconds([linear(weight) for weight in self._weights], buffers, step, tries)
        self._check(results[:, : self.outputs], plain)
        return seconds

    def _check(self, results: torch.Tensor, rows: torch.Tensor) -> None:
        expected = functional.linear(rows, self._matrix())
        error = float((results - expected).abs().max() / expected.std())
        if not error < MAX_ERROR:
            raise WrongResult(f"a linear layer in {self._storage.name} is wrong by {error:.2g} standard deviations")


def linear(weight: Weight) -> Instruction:
    """Buffer 0 through the layer to buffer 1."""
    instruction = Instruction(op=Op.LINEAR)
    instruction.body.linear = Linear(input=0, output=1, scale=1.0, weight=weight)
    return instruction
