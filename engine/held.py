"""What one sequence holds of the cache: a block table for each group, and the slots of its recurrent state."""

from collections.abc import Iterator
from dataclasses import dataclass, field


@dataclass(slots=True)
class GroupTable:
    """The blocks of one cache group in order, from block number `first` on; those before are given back."""

    blocks: list[int] = field(default_factory=list)
    first: int = 0

    @property
    def end(self) -> int:
        """One past the number of the last block."""
        return self.first + len(self.blocks)

    def blocks_from(self, number: int) -> list[int]:
        """The blocks from block `number` on."""
        return self.blocks[max(0, number - self.first) :]


@dataclass(slots=True)
class Held:
    """All that a sequence holds. The block tables write it, and nobody else.

    `num_blocks` is how many blocks of positions have places, in every group; `num_indexed` how many leading
    ones the prefix index has seen. `slot` has the recurrent state; `source` is the checkpoint that the next step
    starts from in its place; `taking` are the checkpoints that the step in flight writes, as (position, slot), and
    `ring` the states before each position that a draft may fall back to; `latest` is where the last checkpoint was
    taken on the way of an answer.
    """

    tables: list[GroupTable] = field(default_factory=list)
    num_blocks: int = 0
    num_indexed: int = 0
    slot: int | None = None
    source: int | None = None
    taking: list[tuple[int, int]] = field(default_factory=list)
    ring: list[tuple[int, int]] = field(default_factory=list)
    latest: int | None = None

    @property
    def anything(self) -> bool:
        """Whether there is anything to give back."""
        return self.num_blocks > 0 or self.slot is not None

    def blocks(self) -> Iterator[int]:
        """The blocks of all groups."""
        for table in self.tables:
            yield from table.blocks

    def slots(self) -> Iterator[int]:
        """The slots, each as often as it is held."""
        for slot in (self.slot, self.source, *(slot for _, slot in (*self.taking, *self.ring))):
            if slot is not None:
                yield slot
