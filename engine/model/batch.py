"""A plan as tensors: index arithmetic alone."""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from engine.step import Chunk, Plan

Ints: TypeAlias = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Span:
    """One chunk's rows: the first, the position it stands at, how many, and the block table."""

    row: int
    start: int
    length: int
    blocks: tuple[int, ...]

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


def write_rows(spans: Sequence[Span], *, block_size: int, num_kv_heads: int) -> Tensor:
    """Where the cache rows of the spans' positions go: [positions × kv heads], indexes of (block, head, offset)."""
    blocks, offsets = [], []
    for span in spans:
        positions = np.arange(span.start, span.stop)
        blocks.append(np.asarray(span.blocks, np.int64)[positions // block_size])
        offsets.append(positions % block_size)
    heads = np.concatenate(blocks)[:, None] * num_kv_heads + np.arange(num_kv_heads)
    rows: Ints = heads * block_size + np.concatenate(offsets)[:, None]
    return torch.from_numpy(rows.reshape(-1))


def _spans(chunks: Sequence[Chunk]) -> tuple[Span, ...]:
    spans, row = [], 0
    for chunk in chunks:
        spans.append(Span(row, chunk.start, len(chunk.tokens), chunk.ticket.blocks))
        row += len(chunk.tokens)
    return tuple(spans)


def _logit_rows(span: Span, chunk: Chunk) -> list[int]:
    rows: list[int] = []
    if chunk.score is not None:
        first = span.row + chunk.score.first - span.start
        rows.extend(range(first, first + len(chunk.score.targets)))
    if chunk.choose is not None:
        rows.append(span.row + span.length - 1)
    return rows
