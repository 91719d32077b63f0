"""A draft model for the digest model: it has rows of its own, and says what the digest model will choose, or not.

It works that out from the tokens in its rows, and bends it. It does not believe what it reads: each row must follow
from those below, so that a row that is stale, misplaced or poisoned is seen, and not only guessed from.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from engine.cache.beside import with_rows_beside
from engine.cache.layout import CacheGroup, Layout
from engine.step import Choose, Chunk, Table
from tests.answer import outcomes
from tests.digest import FULL, VOCABULARY_SIZE, Slot, chain, choose_token

CONTEXT = 20  # shorter than the longest sequence
TABLE = 99  # its number in the hash, so that no row of the target passes for one of these

Bend = Callable[[int, int], int]  # what is said in the place of the right token at a position


def _right(token: int, _: int) -> int:
    return token


def _half_right(token: int, position: int) -> int:
    return token if hash((position, token)) % 2 else (token + 1) % VOCABULARY_SIZE


def _third_wrong(token: int, position: int) -> int:
    return token if position % 3 else (token + 5) % VOCABULARY_SIZE


def _wrong(token: int, _: int) -> int:
    return (token + 1) % VOCABULARY_SIZE


BENDS: Mapping[str, Bend] = {
    "half right": _half_right,
    "right": _right,
    "every third wrong": _third_wrong,
    "wrong": _wrong,
}


def with_draft_model(layout: Layout) -> Layout:
    """The layout of a digest model with the draft model's rows."""
    return with_rows_beside(layout, replace(FULL, groups=(CacheGroup((0, 1), FULL.groups[0].rows),)))


def rows_of(tokens: Iterable[int]) -> list[Slot]:
    """What the rows of these tokens have to be."""
    rows: list[Slot] = []
    for position, token in enumerate(tokens):
        rows.append((token, position, chain(TABLE, rows, token, position)))
    return rows


class DigestDraftModel:
    """Implements `tests.digest.DraftModel`."""

    def __init__(self, layout: Layout, num_units: int, *, block_size: int, bend: Bend) -> None:
        self.memory: list[Slot] = [(-1, -1, -1)] * (num_units * block_size)
        self._layout = layout
        self._block_size = block_size
        self._bend = bend

    def guess(self, chunk: Chunk) -> tuple[int, ...]:
        """Compute the chunk's feed, and guess as many tokens as it has places for."""
        if chunk.feed is None:
            return ()
        for position, token in enumerate(chunk.feed.tokens, start=chunk.feed.start):
            self._write(chunk, token, position)
        guesses: list[int] = []
        for position in range(chunk.feed.stop, chunk.feed.stop + chunk.num_guesses):
            if guesses:
                self._write(chunk, guesses[-1], position - 1)
            assert chunk.choose is not None, "who drafts chooses"
            guesses.append(self._guess(chunk, chunk.choose.after(tuple(guesses)), position))
        return tuple(guesses)

    def _guess(self, chunk: Chunk, choose: Choose, position: int) -> int:
        tokens = [token for token, _, _ in self.read(chunk.ticket.tables, position)]
        return self._bend(choose_token(outcomes(self._layout, tokens)[-1], choose), position)

    def _write(self, chunk: Chunk, token: int, position: int) -> None:
        below = self.read(chunk.ticket.tables, position)
        assert below == rows_of(token for token, _, _ in below), "what the draft model reads is no sequence's"
        row = (token, position, chain(TABLE, below, token, position))
        self.memory[self._place(chunk.ticket.tables, position)] = row

    def read(self, tables: Sequence[Table], stop: int) -> list[Slot]:
        """The rows of the positions below `stop`."""
        return [self.memory[self._place(tables, position)] for position in range(stop)]

    def content(self, unit: int) -> Sequence[Slot]:
        """The rows beside one unit."""
        return self.memory[unit * self._block_size : (unit + 1) * self._block_size]

    def _place(self, tables: Sequence[Table], position: int) -> int:
        units = tables[self._layout.table_beside].units
        return units[position // self._block_size] * self._block_size + position % self._block_size

    def spoil(self, chunk: Chunk, rubble: Slot) -> None:
        """Leave rubble wherever a step that broke off may have written."""
        if chunk.feed is not None:
            for position in range(chunk.feed.start, chunk.feed.stop + max(0, chunk.num_guesses - 1)):
                self.memory[self._place(chunk.ticket.tables, position)] = rubble

    def poison(self, unit: int, rubble: Slot) -> None:
        """Overwrite what lies beside a free unit."""
        begin = unit * self._block_size
        self.memory[begin : begin + self._block_size] = [rubble] * self._block_size
