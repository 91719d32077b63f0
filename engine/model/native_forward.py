"""One model's forward pass as a native program: a plan in, logits out."""

import ctypes
from array import array
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from engine.cache.lanes import LaneStorage
from engine.model.angles import Angles
from engine.model.encoding import Encoded
from engine.model.kernels.builder import padded_width
from engine.model.kernels.choice import Kernels
from engine.model.kernels.matrix import describe_bits
from engine.model.kernels.native import Step
from engine.model.kernels.sampling import NativeSampler
from engine.model.straight import StraightProgram
from engine.model.structure import RotaryData, Structure
from engine.model.weights import WeightSource
from engine.step import Chunk, Plan


class NativeForward:
    """Runs plans through a straight-line decoder on threads of its own.

    `max_rows` is the most positions of a plan. Made and run on one thread.
    """

    def __init__(
        self,
        structure: Structure,
        source: WeightSource,
        storage: LaneStorage,
        *,
        kernels: Kernels,
        max_rows: int,
        num_threads: int,
        angles: Callable[[RotaryData], Angles],
        reencode: Callable[[Encoded], Encoded],
    ) -> None:
        self.storage = storage
        self.level = kernels.level
        self._max_rows = max_rows
        compiler = StraightProgram(
            structure,
            source,
            storage,
            library=kernels.library,
            level=kernels.level,
            max_rows=max_rows,
            angles=angles,
            reencode=reencode,
        )
        self._built = compiler.build()
        self.weights = describe_bits(compiler.weight_bytes)
        self._vocabulary = structure.vocabulary
        self._output = self._built.buffers[compiler.logits]
        self._hidden = self._built.buffers[compiler.hidden]
        self._logits = torch.empty(0, structure.vocabulary)
        self._library = kernels.library
        self.pool = self._library.open_pool(num_threads)
        self.sampler = NativeSampler(kernels.library, self.pool, kernels.level)

    def run(self, plan: Plan) -> Tensor:
        """Compute a plan, write its cache rows, and return the logits [rows that need them, vocabulary] float32.

        They are valid until the next run.
        """
        assert plan.num_positions <= self._max_rows, "the buffers hold no more rows"
        rows = Rows(plan, num_tables=self.storage.layout.num_tables, block_size=self.storage.block_size)
        logits = self._room(len(rows.logit_rows))
        self._library.run(self.pool, self.level, self._built.program, rows.step())
        return logits

    def hidden(self, plan: Plan) -> Tensor:
        """The hidden states [pooled rows, width] float32, behind the last norm, of the plan that was just run."""
        rows = array("i", plan.pooled_rows)
        states = torch.empty(len(rows), padded_width(self._hidden.width))
        self._hidden.data = states.data_ptr()
        step = Step(num_logit_rows=len(rows), logit_rows=_address(rows))
        self._library.run(self.pool, self.level, self._built.tail, step)
        return states[:, : self._hidden.width]

    def close(self) -> None:
        """End the threads."""
        self._library.close_pool(self.pool)

    def _room(self, num_rows: int) -> Tensor:
        if len(self._logits) < num_rows:
            self._logits = torch.empty(num_rows, self._vocabulary)
            self._output.data = self._logits.data_ptr()
        return self._logits[:num_rows]


class Rows:
    """A plan as the native code reads it; must live while its step is run."""

    def __init__(self, plan: Plan, *, num_tables: int, block_size: int) -> None:
        self._num_spans, self._num_tables = len(plan.chunks), num_tables
        self.ids, self.positions, self.logit_rows = array("i"), array("i"), array("i")
        self.slots, self.spans, self.units = array("i"), array("i"), array("i")
        for chunk in plan.chunks:
            self._add(chunk)
        for number in range(num_tables):
            self._add_tables(plan.chunks, number, block_size)

    def step(self) -> Step:
        """The arrays' addresses."""
        return Step(
            num_rows=len(self.ids),
            num_spans=self._num_spans,
            num_logit_rows=len(self.logit_rows),
            num_tables=self._num_tables,
            ids=_address(self.ids),
            positions=_address(self.positions),
            slots=_address(self.slots),
            spans=_address(self.spans),
            units=_address(self.units),
            logit_rows=_address(self.logit_rows),
        )

    def _add(self, chunk: Chunk) -> None:
        row = len(self.ids)
        self.ids.extend(chunk.tokens)
        self.positions.extend(range(chunk.start, chunk.stop))
        if chunk.score is not None:
            first = row + chunk.score.first - chunk.start
            self.logit_rows.extend(range(first, first + len(chunk.score.targets)))
        self.logit_rows.extend(range(len(self.ids) - chunk.num_chosen, len(self.ids)))

    def _add_tables(self, chunks: Sequence[Chunk], number: int, size: int) -> None:
        """Block table `number` of every chunk, and where its positions lie."""
        row = 0
        for chunk in chunks:
            table = chunk.ticket.tables[number]
            units, skipped = table.units, table.first * size
            self.spans.extend((row, chunk.start, len(chunk.tokens), len(self.units) - table.first))
            self.units.extend(units)
            places = range(chunk.start - skipped, chunk.stop - skipped)
            self.slots.extend([units[place // size] * size + place % size for place in places])
            row += len(chunk.tokens)


def _address(values: "array[int]") -> int:
    return values.buffer_info()[0]


assert ctypes.sizeof(ctypes.c_int) == array("i").itemsize, "the native code reads 32-bit integers"
