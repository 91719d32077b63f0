"""Bars: counts and marks as rows of characters, told apart without colours too."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

from server.top.sight import Held, Sequence

STEPS = (1, 2, 5)  # times a power of ten: where a scale may end, so that it does not move all the time


@dataclass(frozen=True, slots=True)
class Piece:
    """A run of one character, and what it stands for."""

    text: str
    means: str


STATES = {"allocated": "█", "shared": "▓", "cached": "▒", "free": "·"}
MARKS = {"computed": "█", "in flight": "▓", "accepted": "▒", "draft": "░", "held back": "▚", "": "·"}


def pool_bar(held: Held, capacity: int, *, width: int) -> list[Piece]:
    """The blocks by state, stacked; what is left of the capacity is free, or another group's."""
    counts = (held.allocated, held.shared, held.cached)
    total, ends = max(capacity, 1), [0]
    for count in counts:
        ends.append(ends[-1] + count)
    cells = [_cells(end, total, width) for end in ends]
    pieces = [(high - low, state) for (low, high), state in zip(pairwise(cells), STATES, strict=False)]
    return [Piece(STATES[state] * count, state) for count, state in [*pieces, (width - cells[-1], "free")] if count]


def _cells(count: int, total: int, width: int) -> int:
    """How many cells so much fills: something is never nothing, and all but something never all."""
    exact = min(count, total) * width / total
    if 0 < exact < 1:
        return 1
    return min(round(exact), width - 1) if count < total else width


def scale_of(longest: int) -> int:
    """The round number at or above a length."""
    power = 1
    while True:
        for step in STEPS:
            if step * power >= longest:
                return step * power
        power *= 10


def marks_bar(sequence: Sequence, *, scale: int, width: int) -> list[Piece]:
    """A sequence's positions by its marks; a cell shows what is newest in it."""
    edges = [cell * scale // width for cell in range(width + 1)]
    return list(_runs([_meaning(sequence, low, max(high, low + 1)) for low, high in pairwise(edges)]))


def _meaning(sequence: Sequence, low: int, high: int) -> str:
    if max(low, sequence.computed) < min(high, sequence.planned, sequence.accepted):
        return "in flight"
    if max(low, sequence.accepted) < min(high, sequence.planned):
        return "draft"
    if max(low, sequence.published) < min(high, sequence.accepted):
        return "held back"
    if max(low, sequence.computed) < min(high, sequence.accepted):
        return "accepted"
    return "computed" if low < sequence.computed else ""


def _runs(meanings: list[str]) -> Iterator[Piece]:
    start = 0
    for end in range(1, len(meanings) + 1):
        if end == len(meanings) or meanings[end] != meanings[start]:
            yield Piece(MARKS[meanings[start]] * (end - start), meanings[start])
            start = end
