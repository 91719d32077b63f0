"""Puts a program together: its buffers, its instructions, and what must live as long as it does."""

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from engine.model.kernels.matrix import Matrix
from engine.model.kernels.native import (
    Attention,
    Buffer,
    Combine,
    Embed,
    Experts,
    Format,
    Gate,
    Gather,
    Heads,
    Instruction,
    Level,
    Linear,
    Norm,
    Op,
    Pointer,
    Program,
    Route,
    Softcap,
    Weight,
)
from engine.model.kernels.slab import Slab

WIDTH_QUANTUM = 32  # values; rows are padded with zeros to a multiple of them
FLOAT_BYTES = 4
_Body = Embed | Norm | Linear | Heads | Attention | Gate | Gather | Softcap | Route | Experts | Combine


def padded_width(width: int) -> int:
    """How many values a row takes."""
    return -(-width // WIDTH_QUANTUM) * WIDTH_QUANTUM


@dataclass(frozen=True, slots=True)
class BuiltProgram:
    """A program, another one behind it that is run where it is wanted, and what both point to."""

    program: Program
    tail: Program
    buffers: "ctypes.Array[Buffer]"
    kept: tuple[object, ...]
    num_bytes: int  # of the buffers


class Builder:
    """Collects one model's instructions. Buffers hold `max_rows` rows."""

    def __init__(self, level: Level, *, max_rows: int) -> None:
        self.level = level
        self.max_rows = max_rows
        self._buffers: list[Buffer] = []
        self._instructions: list[Instruction] = []
        self._tail: list[Instruction] = []
        self._kept: list[object] = []
        self._num_bytes = 0
        self._routes: list[Tensor] = []
        self._slab = Slab()

    @property
    def input_format(self) -> Format:
        """How the rows lie that a matrix of few bits is multiplied with."""
        return Format.SPLIT if self.level is Level.AMX else Format.PLAIN

    def buffer(self, width: int, format: Format = Format.PLAIN, *, per_row: int = 1) -> int:
        """Reserve a buffer of `per_row` rows for each row of a step; returns its number."""
        stride = padded_width(width) * FLOAT_BYTES
        memory = self._slab.take(self.max_rows * per_row, stride)
        self._num_bytes += memory.numel()
        self.keep(memory)
        return self._add(Buffer(data=memory.data_ptr(), stride_bytes=stride, width=width, format=format))

    def outside(self, width: int, *, padded: bool = False) -> int:
        """A buffer of plain rows whose memory is named anew for each step; returns its number."""
        stride = padded_width(width) if padded else width
        return self._add(Buffer(data=0, stride_bytes=stride * FLOAT_BYTES, width=width, format=Format.PLAIN))

    def view(self, buffer: int, column: int, width: int) -> int:
        """Some columns of a plain buffer as one of its own; returns its number."""
        whole = self._buffers[buffer]
        assert whole.format == Format.PLAIN, "the parts of a split row lie apart"
        data = whole.data + column * FLOAT_BYTES
        return self._add(Buffer(data=data, stride_bytes=whole.stride_bytes, width=width, format=Format.PLAIN))

    def width(self, buffer: int) -> int:
        """How many values a row of a buffer has."""
        return int(self._buffers[buffer].width)

    def emit(self, op: Op, body: _Body, *, of_logits: bool = False, in_tail: bool = False) -> None:
        """Add an instruction; `of_logits` ones see the gathered rows alone."""
        instruction = Instruction(op=op, of_logits=of_logits)
        setattr(instruction.body, op.name.lower(), body)
        (self._tail if in_tail else self._instructions).append(instruction)

    def keep(self, *things: object) -> None:
        """Let `things` live as long as the program."""
        self._kept.extend(things)

    def pointer(self, tensor: Tensor | None) -> int | None:
        """Where a float32 tensor lies, which is kept; None where there is none."""
        if tensor is None:
            return None
        plain = tensor.to(torch.float32).contiguous()
        self.keep(plain)
        return plain.data_ptr()

    def weight(self, matrix: Matrix) -> Weight:
        """A matrix as an instruction names it; it is kept."""
        self.keep(matrix)
        return matrix.weight()

    def weights(self, matrices: Sequence[Matrix]) -> int:
        """Where an array of matrices as instructions name them lies; they are kept."""
        array = (Weight * len(matrices))(*(self.weight(matrix) for matrix in matrices))
        self.keep(array)
        return ctypes.addressof(array)

    def pointers(self, tensors: Sequence[Tensor]) -> int:
        """Where an array of the addresses of float32 tensors lies, which are kept."""
        array = (Pointer * len(tensors))(*(self.pointer(tensor) for tensor in tensors))
        self.keep(array)
        return ctypes.addressof(array)

    def reserve_routes(self, *, experts: int, chosen: int) -> None:
        """Make room for what routers find."""
        pairs = self.max_rows * chosen
        sizes = ((pairs, torch.int32), (pairs, torch.float32), (pairs, torch.int32), (pairs, torch.int32))
        self._routes = [torch.zeros(size, dtype=dtype) for size, dtype in sizes]
        self._routes.append(torch.zeros(experts + 1, dtype=torch.int32))

    def finish(self) -> BuiltProgram:
        """The programs, as they are now."""
        buffers = (Buffer * len(self._buffers))(*self._buffers)
        program, tail = self._program(self._instructions, buffers), self._program(self._tail, buffers)
        names = ("route_ids", "route_weights", "route_pairs", "route_places", "route_starts")
        for name, tensor in zip(names, self._routes, strict=False):  # without experts there are none
            setattr(program, name, tensor.data_ptr())
        return BuiltProgram(program, tail, buffers, (*self._kept, *self._routes), self._num_bytes)

    def _program(self, emitted: Sequence[Instruction], buffers: "ctypes.Array[Buffer]") -> Program:
        instructions = (Instruction * len(emitted))(*emitted)
        self.keep(instructions)
        return Program(
            instructions=ctypes.addressof(instructions),
            num_instructions=len(instructions),
            num_buffers=len(buffers),
            buffers=ctypes.addressof(buffers),
        )

    def _add(self, buffer: Buffer) -> int:
        self._buffers.append(buffer)
        return len(self._buffers) - 1
