"""Hits: the longest beginning of a sequence that the cache holds in every group at once."""

from collections.abc import Iterable, Sequence as Run
from dataclasses import dataclass

from engine.cache.layout import CacheGroup, Layout, Reach
from engine.cache.prefix import Prefix, PrefixIndex
from engine.cache.slots import StateSlots

KEYS_REMEMBERED = 1 << 16  # of prompts, where only states are kept and no blocks tell what was seen before


@dataclass(frozen=True, slots=True)
class Match:
    """A prefix found in the cache: its blocks by group, each from block number `firsts` on, and its checkpoint.

    `stem` is how many positions other sequences are known to have had in common with this one; what they left in the
    cache may be shorter.
    """

    num_positions: int
    firsts: tuple[int, ...]
    tables: tuple[tuple[int, ...], ...]
    checkpoint: int | None
    stem: int

    @property
    def blocks(self) -> list[int]:
        """The blocks of all groups."""
        return [block for table in self.tables for block in table]


class Hits:
    """Looks a prefix up in the index of every group, and among the checkpoints where the model is recurrent."""

    def __init__(self, layout: Layout, states: StateSlots, *, block_size: int) -> None:
        self.indexes = tuple(PrefixIndex(block_size=block_size) for _ in layout.groups)
        self._block_size = block_size
        self._states = states
        self._groups = tuple(zip(layout.groups, self.indexes, strict=True))
        self._keeps_all = any(group.reach is Reach.FULL for group in layout.groups)
        self._seen: dict[bytes, None] = {}  # keys of prompts, where no blocks tell what was seen before

    def forget(self, block: int) -> None:
        """Drop a block, whose content is about to be overwritten."""
        next(index for index in self.indexes if index.knows(block)).forget(block)

    def match(self, prefix: Prefix, most: int) -> Match:
        """The longest hit of `most` blocks at most: valid in every group."""
        known = self._longest_known(prefix, most)
        count, checkpoint = self._longest_with_state(prefix, known)
        stem = known if self._groups else self._num_seen(prefix.keys[:most])
        size = self._block_size
        firsts = tuple(group.first_seen(count * size) // size for group, _ in self._groups)
        tables = tuple(
            tuple(index.found(prefix, number) for number in range(first, count))
            for first, index in zip(firsts, self.indexes, strict=True)
        )
        return Match(count * size, firsts, tables, checkpoint, stem * size)

    def _longest_with_state(self, prefix: Prefix, most: int) -> tuple[int, int | None]:
        """The same, and where recurrent layers have a checkpoint; its slot."""
        count, checkpoint = most, None
        while self._states.there:
            before, checkpoint = self._states.longest(prefix, count)
            count = self._longest_known(prefix, before)  # a window further back may not be there any more
            if count == before:
                break
        return count, checkpoint

    def _longest_known(self, prefix: Prefix, most: int) -> int:
        """The most leading blocks, `most` at most, that leave every group what its layers would see from there on."""
        count = most
        for group, index in self._groups:
            if group.reach is Reach.FULL:
                count = next((number for number in range(count) if index.find(prefix, number) is None), count)
        while True:
            before = count
            for group, index in self._groups:
                count = self._longest_behind(group, index, prefix, count)
            if count == before:
                return count

    def _longest_behind(self, group: CacheGroup, index: PrefixIndex, prefix: Prefix, most: int) -> int:
        """The same for one group of limited reach: a block that is missing rules out every end that would see it."""
        if group.reach is Reach.FULL:
            return most
        end, number = most, most
        while number > self._first_needed(group, end):
            number -= 1
            if index.find(prefix, number) is None:
                end = number
        return end

    def _first_needed(self, group: CacheGroup, end: int) -> int:
        """The first block that is seen from `end` on; the last one, where else nothing tells that there was any."""
        first = group.first_seen(end * self._block_size) // self._block_size
        return first if self._keeps_all else max(0, min(first, end - 1))

    def _num_seen(self, keys: Run[bytes]) -> int:
        return next((number for number, key in enumerate(keys) if key not in self._seen), len(keys))

    def remember(self, keys: Iterable[bytes]) -> None:
        """Note that a sequence has come this way, where only states are kept."""
        if self._groups:
            return
        for key in keys:
            self._seen[key] = None
        while len(self._seen) > KEYS_REMEMBERED:
            del self._seen[next(iter(self._seen))]

    def check(self) -> None:
        """Assert the laws of the indexes."""
        for index in self.indexes:
            index.check()
