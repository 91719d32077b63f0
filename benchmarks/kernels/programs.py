"""Programs of the native library that repeat one instruction, each time on other memory, as a model's layers do."""

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from benchmarks.kernels.ceilings import best_of, timed
from engine.model.kernels.native import Buffer, Format, Instruction, Level, Library, Program, Step

STRIP = 32  # what a row's values are padded to


class WrongResult(Exception):
    """A kernel did not compute what it was timed for."""


def padded(count: int, to: int) -> int:
    """The next multiple."""
    return -(-count // to) * to


@dataclass(frozen=True)
class Machine:
    """The library, its threads, and what they are to use of the CPU."""

    library: Library
    pool: int
    level: Level

    def seconds(self, instructions: Sequence[Instruction], buffers: Sequence[Buffer], step: Step, tries: int) -> float:
        """The shortest time of one of the instructions, all of them run in one program."""
        lines = (Instruction * len(instructions))(*instructions)
        places = (Buffer * len(buffers))(*buffers)
        program = Program(
            instructions=ctypes.addressof(lines),
            num_instructions=len(lines),
            buffers=ctypes.addressof(places),
            num_buffers=len(places),
        )
        run = best_of(tries, lambda: timed(lambda: self.library.run(self.pool, self.level, program, step)))
        return run / len(instructions)


def rows_of(rows: torch.Tensor, *, split: bool) -> torch.Tensor:
    """Float32 rows as a buffer holds them: as they are, or each one's high bfloat16 parts and then its low ones."""
    if not split:
        return rows
    high = rows.to(torch.bfloat16)
    low = (rows - high.float()).to(torch.bfloat16)
    return torch.cat((high, low), dim=1)


def buffer_of(rows: torch.Tensor, width: int, *, split: bool = False) -> Buffer:
    """A buffer over rows that the caller keeps."""
    stride_bytes = rows.stride(0) * rows.element_size()
    form = Format.SPLIT if split else Format.PLAIN
    return Buffer(data=rows.data_ptr(), stride_bytes=stride_bytes, width=width, format=form)
