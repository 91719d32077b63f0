"""BlockTables: a sequence's places in the cache, from the pool, shared through the prefix index."""

from collections.abc import Iterable, Sequence as Run
from dataclasses import dataclass

from engine.cache.blocks import BlockPool
from engine.cache.prefix import PrefixIndex
from engine.sequence import Sequence


@dataclass(frozen=True, slots=True)
class Match:
    """A prefix found in the cache: its blocks and the positions they hold."""

    blocks: tuple[int, ...]
    num_positions: int


class BlockTables:
    """All block tables, and the only one that takes blocks from the pool or gives them back.

    Moves no marks but through `preempt`, which invalidates.
    """

    def __init__(self, *, num_blocks: int, block_size: int, fingerprint: str, prefix_caching: bool = True) -> None:
        self.block_size = block_size
        self.prefix_caching = prefix_caching
        self.prefix = PrefixIndex(fingerprint=fingerprint, block_size=block_size)
        self.pool = BlockPool(num_blocks, on_evict=self.prefix.forget)

    def num_blocks_for(self, positions: int) -> int:
        """Blocks that hold `positions` positions."""
        return -(-positions // self.block_size)

    def num_missing(self, sequence: Sequence, upto: int) -> int:
        """Blocks that `sequence` lacks to hold everything below position `upto`."""
        return max(0, self.num_blocks_for(upto) - len(sequence.blocks))

    def match(self, sequence: Sequence) -> Match:
        """The longest prefix of the sequence's tokens in the cache that it may start from."""
        if not self.prefix_caching:
            return Match((), 0)
        self._extend_keys(sequence, len(sequence.tokens))
        salt = sequence.request.salt
        blocks = self.prefix.match(sequence.keys, sequence.tokens, salt=salt, max_tokens=sequence.max_hit)
        return Match(tuple(blocks), len(blocks) * self.block_size)

    def seat(self, sequence: Sequence, match: Match) -> None:
        """Give a sequence without blocks the shared blocks of its `match`."""
        assert not sequence.blocks, "seated twice"
        self.pool.share(match.blocks)
        sequence.blocks.extend(match.blocks)
        sequence.num_indexed = len(match.blocks)

    def reserve(self, wanted: Iterable[tuple[Sequence, int]]) -> None:
        """Give every sequence blocks for all positions below its number: all of them, or none and an error."""
        counts = [(sequence, self.num_missing(sequence, upto)) for sequence, upto in wanted]
        assert sum(count for _, count in counts) <= self.pool.num_available, "the plan fits the pool"
        for sequence, count in counts:
            if count:
                sequence.blocks.extend(self.pool.reserve(count))

    def index(self, sequence: Sequence) -> None:
        """Make the sequence's full computed blocks known. Called at commit, when they are also accepted."""
        if not self.prefix_caching:
            return
        upto = min(sequence.ledger.computed, sequence.ledger.accepted)
        if upto // self.block_size == sequence.num_indexed:
            return
        self._extend_keys(sequence, upto)
        for index in range(sequence.num_indexed, upto // self.block_size):
            block = sequence.blocks[index]
            if self.prefix.insert(sequence.keys, sequence.tokens, index, block, salt=sequence.request.salt):
                self.pool.keep(block)
            sequence.num_indexed = index + 1

    def release(self, sequence: Sequence) -> None:
        """Give back all blocks of a sequence that has ended."""
        self.pool.release(sequence.blocks)
        sequence.blocks.clear()

    def preempt(self, sequence: Sequence) -> None:
        """Take a sequence's cache; it keeps its output and starts again from what is found in the cache."""
        self.release(sequence)
        sequence.invalidate()

    def leads(self, leader: Sequence, follower: Sequence, match: Match) -> bool:
        """Whether `leader` is about to compute the block that `follower`, after `match`, needs next."""
        index = len(match.blocks)
        most = min(follower.max_hit // self.block_size, len(follower.keys))  # leading blocks that a hit could give
        if index >= most or index >= len(leader.keys):
            return False
        return leader.keys[index] == follower.keys[index] and leader.ledger.computed < (index + 1) * self.block_size

    def owners_of(self, blocks: Run[int]) -> tuple[tuple[int, int], ...]:
        """Each of `blocks` with its number of owners."""
        return tuple((block, self.pool.owners(block)) for block in blocks)

    def _extend_keys(self, sequence: Sequence, upto: int) -> None:
        self.prefix.extend(sequence.keys, sequence.tokens, salt=sequence.request.salt, upto=upto)

    def check(self, sequences: Iterable[Sequence]) -> None:
        """Assert the laws of pool, index and tables."""
        sequences = list(sequences)
        self.pool.check(sequence.blocks for sequence in sequences)
        self.prefix.check()
        for sequence in sequences:
            assert len(set(sequence.blocks)) == len(sequence.blocks), "a table holds a block once"
            needed = self.num_blocks_for(sequence.ledger.planned)
            assert len(sequence.blocks) >= needed, f"{sequence.id} lacks places for what is planned"
            self._check_writes(sequence)

    def _check_writes(self, sequence: Sequence) -> None:
        """Only full, computed blocks have other owners: what is still to be written belongs to one."""
        for block in sequence.blocks[sequence.ledger.computed // self.block_size :]:
            assert self.pool.owners(block) == 1, f"{sequence.id} would write shared block {block}"
