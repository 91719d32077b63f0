"""A plan as tensors: index arithmetic alone."""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from engine.cache.storage import Slots
from engine.step import Chunk, Plan, StateUse, Table


@dataclass(frozen=True, slots=True)
class Span:
    """One chunk's rows: the first, the position it stands at, how many, the block tables and the slots of states."""

    row: int
    start: int
    length: int
    tables: tuple[Table, ...]
    states: StateUse | None = None

    @property
    def stop(self) -> int:
        """One past the last position."""
        return self.start + self.length


@dataclass(frozen=True, slots=True)
class Batch:
    """A plan's positions packed in one row, and padding behind them.

    The padding is token 0 at position 0 and is written to no block.
    """

    num_rows: int  # without the padding
    ids: Tensor  # [1, padded rows] int64
    positions: Tensor  # [1, padded rows] int64
    logit_rows: Tensor  # [rows that need logits] int64, in the order of the plan: scores, then the choice
    spans: tuple[Span, ...]


def make_batch(plan: Plan, paddings: Sequence[int]) -> Batch:
    """Pack the plan's chunks one after the other, and pad to the next of the ascending `paddings`."""
    spans = _spans(plan.chunks)
    num_rows = plan.num_positions
    padded = paddings[bisect_left(paddings, num_rows)]
    ids, positions = np.zeros((1, padded), np.int64), np.zeros((1, padded), np.int64)
    for span, chunk in zip(spans, plan.chunks, strict=True):
        rows = slice(span.row, span.row + span.length)
        ids[0, rows] = chunk.tokens
        positions[0, rows] = np.arange(span.start, span.stop)
    logit_rows = [row for span, chunk in zip(spans, plan.chunks, strict=True) for row in _logit_rows(span, chunk)]
    return Batch(
        num_rows,
        torch.from_numpy(ids),
        torch.from_numpy(positions),
        torch.tensor(logit_rows, dtype=torch.int64),
        spans,
    )


def slots_of(spans: Sequence[Span], number: int, *, block_size: int) -> Slots:
    """Where the spans' positions lie by block table `number`."""
    units, offsets = [], []
    for span in spans:
        table, positions = span.tables[number], np.arange(span.start, span.stop)
        units.append(np.asarray(table.units, np.int64)[positions // block_size - table.first])
        offsets.append(positions % block_size)
    return Slots(torch.from_numpy(np.concatenate(units)), torch.from_numpy(np.concatenate(offsets)))


def _spans(chunks: Sequence[Chunk]) -> tuple[Span, ...]:
    spans, row = [], 0
    for chunk in chunks:
        spans.append(Span(row, chunk.start, len(chunk.tokens), chunk.ticket.tables, chunk.ticket.states))
        row += len(chunk.tokens)
    return tuple(spans)


def _logit_rows(span: Span, chunk: Chunk) -> list[int]:
    rows: list[int] = []
    if chunk.score is not None:
        first = span.row + chunk.score.first - span.start
        rows.extend(range(first, first + len(chunk.score.targets)))
    rows.extend(range(span.row + span.length - chunk.num_chosen, span.row + span.length))
    return rows
