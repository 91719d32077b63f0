"""From a step's hidden states to the sums that embeddings are made of."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import islice

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from engine.step import Chunk, ChunkResult, Pool

Row = NDArray[np.float32]  # [width]


class HiddenNotFinite(ArithmeticError):
    """The model gave hidden states that are no numbers, or infinite ones."""

    def __init__(self, sequence: str) -> None:
        super().__init__(f"the model gave hidden states that are not finite for sequence {sequence}")
        self.sequence = sequence


def add_pooled(results: Iterable[ChunkResult], chunks: Sequence[Chunk], hidden: Tensor) -> tuple[ChunkResult, ...]:
    """The results, with the sums of those chunks that pool.

    `hidden` [pooled rows, width] float32 are in the order of the chunks. Raises HiddenNotFinite.
    """
    rows = iter(hidden.numpy())
    pairs = zip(results, chunks, strict=True)
    return tuple(_with_sum(result, chunk, islice(rows, chunk.num_pooled)) for result, chunk in pairs)


def _with_sum(result: ChunkResult, chunk: Chunk, rows: Iterator[Row]) -> ChunkResult:
    if chunk.pool is None:
        return result
    total = _added(chunk.pool, rows)
    if not np.isfinite(total).all():
        raise HiddenNotFinite(chunk.ticket.sequence)
    return replace(result, pooled=total.tobytes())


def _added(pool: Pool, rows: Iterator[Row]) -> NDArray[np.float64]:
    """Add position by position, in float64: however a prompt is cut into chunks, its sum has the same bits."""
    total = np.frombuffer(pool.sum).copy() if pool.sum else next(rows).astype(np.float64)
    for row in rows:
        total += row
    return total
