"""Products of rows with packed matrices: programs that are made once, and run on rows that differ."""

import ctypes
from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional

from engine.model.kernels.builder import FLOAT_BYTES, WIDTH_QUANTUM
from engine.model.kernels.choice import Kernels
from engine.model.kernels.native import (
    Buffer,
    Experts,
    Format,
    Instruction,
    Kind,
    Level,
    Linear,
    Norm,
    NormKind,
    Op,
    Pointer,
    Program,
    Step,
    Weight,
)
from engine.model.kernels.slab import map_pages


class Place:
    """Where programs run: on the kernels of one level, on the threads of one pool, one after the other."""

    def __init__(self, kernels: Kernels, pool: int) -> None:
        self.kernels, self.pool = kernels, pool
        self._scratch = torch.empty(0, dtype=torch.uint8)

    def run(self, program: Program, step: Step) -> None:
        """Run a program; blocking."""
        self.kernels.library.run(self.pool, self.kernels.level, program, step)

    def scratch(self, num_bytes: int) -> int:
        """Where so many bytes lie, which are the caller's until somebody asks again."""
        if self._scratch.numel() < num_bytes:
            self._scratch = map_pages(num_bytes)
        return self._scratch.data_ptr()


class MatrixProduct:
    """Rows times a matrix, plus the bias [outputs] float32; the memory of both is the caller's to keep."""

    def __init__(self, place: Place, weight: Weight, bias: Tensor | None) -> None:
        body = Linear(scale=1.0, weight=weight, bias=None if bias is None else bias.data_ptr())
        self._product = _Product(place, Op.LINEAR, body, weight)

    def __call__(self, rows: Tensor, num_rows: int) -> Tensor:
        """Rows […, inputs] float32 -> […, outputs] float32, of which those behind the first `num_rows` are zeros."""
        return self._product.run(rows, num_rows)


class GroupedProduct:
    """Rows in the order of their groups, each times its group's matrix, plus the group's row of `biases`.

    Biases are [groups, outputs] float32; their memory and the matrices' is the caller's to keep.
    """

    def __init__(self, place: Place, weights: Sequence[Weight], biases: Tensor | None) -> None:
        self._weights = (Weight * len(weights))(*weights)
        body = Experts(experts=len(weights), chosen=1, weights=ctypes.addressof(self._weights))
        if biases is not None:
            self._biases = (Pointer * len(weights))(*(bias.data_ptr() for bias in biases))
            body.biases = ctypes.addressof(self._biases)
        self._product = _Product(place, Op.EXPERTS, body, weights[0])

    def __call__(self, rows: Tensor, starts: Sequence[int]) -> Tensor:
        """Rows [n, inputs] float32 -> [n, outputs] float32; group g's are those from `starts[g]` to `starts[g + 1]`."""
        array = (ctypes.c_int32 * len(starts))(*starts)
        self._product.program.route_starts = ctypes.addressof(array)
        return self._product.run(rows, len(rows))


class _Product:
    """An instruction that multiplies rows, behind one that splits them where the level asks for it."""

    def __init__(self, place: Place, op: Op, body: Linear | Experts, weight: Weight) -> None:
        self._place, self._outputs = place, weight.outputs
        self._row_bytes = padded_width(weight.inputs) * FLOAT_BYTES
        self._splits = place.kernels.level is Level.AMX and weight.kind != Kind.F32
        rows = (Buffer(0, self._row_bytes, weight.inputs, format) for format in (Format.PLAIN, Format.SPLIT))
        self._buffers = (Buffer * 3)(*rows, Buffer(0, self._outputs * FLOAT_BYTES, self._outputs, Format.PLAIN))
        self._input, self._read, self._out = self._buffers
        body.input, body.output = int(self._splits), 2
        code = [instruction(op, body)]
        if self._splits:
            code.insert(0, instruction(Op.NORM, Norm(input=0, output=1, kind=NormKind.NONE, scale=1.0)))
        self._code = (Instruction * len(code))(*code)
        self.program = program_of(self._code, self._buffers)
        self._step = Step()

    def run(self, rows: Tensor, num_rows: int) -> Tensor:
        """The product of the first `num_rows`, and zeros for the others."""
        *shape, _ = rows.shape
        plain, out = padded(rows), rows.new_empty((*shape, self._outputs))
        clear_behind(out, num_rows)
        self._input.data, self._out.data = plain.data_ptr(), out.data_ptr()
        if self._splits:
            self._read.data = self._place.scratch(num_rows * self._row_bytes)
        self._step.num_rows = num_rows
        self._place.run(self.program, self._step)
        return out


def padded_width(width: int) -> int:
    """The values of a row as the kernels read it: a multiple of 32."""
    return -(-width // WIDTH_QUANTUM) * WIDTH_QUANTUM


def padded(rows: Tensor) -> Tensor:
    """The rows one behind the other, with zeros behind each up to that."""
    missing = -rows.shape[-1] % WIDTH_QUANTUM
    return functional.pad(rows, (0, missing)) if missing else rows.contiguous()


def clear_behind(rows: Tensor, num_rows: int) -> None:
    """Make those behind the first `num_rows` zeros, of rows [..., width] that lie one behind the other."""
    first = num_rows * rows.shape[-1] * FLOAT_BYTES
    if first < rows.nbytes:
        ctypes.memset(rows.data_ptr() + first, 0, rows.nbytes - first)


def instruction(op: Op, body: ctypes.Structure) -> Instruction:
    """One op and what it is applied to."""
    made = Instruction(op=op)
    setattr(made.body, op.name.lower(), body)
    return made


def program_of(code: "ctypes.Array[Instruction]", buffers: "ctypes.Array[Buffer]") -> Program:
    """The program of instructions and buffers that the caller keeps."""
    return Program(ctypes.addressof(code), len(code), len(buffers), ctypes.addressof(buffers))
