"""Sequences behind one forward pass, computed in every company and cut."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from engine.cache.memory import UnitMemory
from engine.model.forward import Forward
from engine.model.packed_forward import PackedForward
from engine.step import Plan
from tests.models.architectures import VOCABULARY_SIZE
from tests.models.support import run, slots_of, tables_of, units_of

NUM_BLOCKS = 64


class CachedForward(Protocol):
    """A forward pass, and the cache that it works on."""

    @property
    def storage(self) -> UnitMemory: ...

    def run(self, plan: Plan) -> Tensor: ...


def random_sequences(lengths: Iterable[int], *, seed: int = 1) -> list[list[int]]:
    """One sequence of each length."""
    generator = torch.Generator().manual_seed(seed)
    return [torch.randint(3, VOCABULARY_SIZE, (length,), generator=generator).tolist() for length in lengths]


@dataclass(frozen=True)
class Case:
    """A forward pass over a cache of `NUM_BLOCKS`, which is NaN before each run, and some sequences."""

    forward: CachedForward
    sequences: list[list[int]]

    @property
    def tables(self) -> list[list[int]]:
        """A block table for each sequence, scattered over the cache."""
        blocks = torch.randperm(NUM_BLOCKS, generator=torch.Generator().manual_seed(2)).tolist()
        tables = []
        for tokens in self.sequences:
            count = -(-len(tokens) // self.forward.storage.block_size)
            tables.append(blocks[:count])
            blocks = blocks[count:]
        return tables

    def alone(self) -> list[Tensor]:
        """The logits of each sequence in one step of its own."""
        return [self._fresh_run(index) for index in range(len(self.sequences))]

    def batched(self) -> list[Tensor]:
        """Those of all sequences in one step."""
        self._poison()
        parts = [(0, tokens, table) for tokens, table in zip(self.sequences, self.tables, strict=True)]
        return run(self.forward, *parts)

    def chunked(self, most: int) -> list[Tensor]:
        """Each sequence cut at random into chunks of up to `most` tokens, beside whatever the others have."""
        self._poison()
        generator = torch.Generator().manual_seed(most)
        pieces: list[list[Tensor]] = [[] for _ in self.sequences]
        done = [0] * len(self.sequences)
        while any(at < len(tokens) for at, tokens in zip(done, self.sequences, strict=True)):
            parts, owners = [], []
            for index, tokens in enumerate(self.sequences):
                size = int(torch.randint(0, most + 1, (1,), generator=generator))
                if chunk := tokens[done[index] : done[index] + size]:
                    self._forget(index, done[index])
                    parts.append((done[index], chunk, self.tables[index]))
                    owners.append(index)
                    done[index] += len(chunk)
            for index, logits in zip(owners, run(self.forward, *parts) if parts else [], strict=True):
                pieces[index].append(logits)
        return [torch.cat(each) for each in pieces]

    def token_by_token(self, index: int) -> Tensor:
        """One sequence as if all of it were decoded."""
        self._poison()
        pieces = []
        for at, token in enumerate(self.sequences[index]):
            self._forget(index, at)
            pieces += run(self.forward, (at, [token], self.tables[index]))
        return torch.cat(pieces)

    def behind_a_hit(self, num_blocks: int) -> Tensor:
        """The first sequence's last part, over blocks that a run of the whole sequence left behind."""
        self._poison()
        tokens, table = self.sequences[0], self.tables[0]
        hit = num_blocks * self.forward.storage.block_size
        run(self.forward, (0, tokens, table))
        others = sorted(set(range(NUM_BLOCKS)) - set(table))
        self._poison([*others, *table[num_blocks:]])
        own = others[: len(table) - num_blocks]
        return run(self.forward, (hit, tokens[hit:], table[:num_blocks] + own))[0]

    def _fresh_run(self, index: int) -> Tensor:
        self._poison()
        return run(self.forward, (0, self.sequences[index], self.tables[index]))[0]

    def _poison(self, blocks: Sequence[int] = range(NUM_BLOCKS)) -> None:
        storage = self.forward.storage
        with torch.inference_mode():  # the cache was made in it
            storage.poison(unit for units in units_of(storage, tuple(blocks)) for unit in units)
            if isinstance(self.forward, Forward | PackedForward):
                self.forward.recurrence.storage.poison(slots_of(blocks))

    def _forget(self, index: int, start: int) -> None:
        """Poison what no position of a sequence from `start` on sees."""
        storage, blocks = self.forward.storage, self.tables[index]
        kept = tables_of(storage, blocks, start=start)
        with torch.inference_mode():
            storage.poison(
                unit
                for table, units in zip(kept, units_of(storage, blocks), strict=True)
                for unit in units[: table.first]
            )


def same_bits(ours: list[Tensor], expected: list[Tensor]) -> bool:
    """Whether all are equal, and numbers."""
    pairs = zip(ours, expected, strict=True)
    return all(bool(logits.isfinite().all()) and torch.equal(logits, other) for logits, other in pairs)
