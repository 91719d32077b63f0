"""BlockPool: who owns each block of the cache, which are free, and which go next."""

import heapq
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable, Sequence

from engine.stats import BlockCounts


class BlockPool:
    """Accounts of `num_blocks` blocks; the contents live elsewhere.

    A block is *referenced* (one or more owners), *cached* (no owner, but the prefix index knows its
    content) or *free*. Free blocks are handed out lowest id first, so that memory is touched no
    wider than the load needs; then cached ones, the least recently released first. `on_evict` is
    told of a cached block before it is handed out.
    """

    def __init__(self, num_blocks: int, *, on_evict: Callable[[int], None]) -> None:
        self.num_blocks = num_blocks
        self._on_evict = on_evict
        self._references = [0] * num_blocks
        self._free = list(range(num_blocks))  # a heap
        self._cached: OrderedDict[int, None] = OrderedDict()  # the next to evict comes first
        self._indexed: set[int] = set()
        self._num_shared = 0

    @property
    def num_available(self) -> int:
        """Blocks that could be reserved now: free and cached ones."""
        return len(self._free) + len(self._cached)

    def counts(self) -> BlockCounts:
        """How many blocks are in each state."""
        referenced = self.num_blocks - self.num_available
        return BlockCounts(
            free=len(self._free),
            allocated=referenced - self._num_shared,
            shared=self._num_shared,
            cached=len(self._cached),
        )

    def owners(self, block: int) -> int:
        """How many sequences hold `block`."""
        return self._references[block]

    def num_cached(self, blocks: Iterable[int]) -> int:
        """How many of `blocks` have no owner: sharing them takes them from what is available."""
        return sum(1 for block in blocks if self._references[block] == 0)

    def num_freed_by(self, tables: Iterable[Sequence[int]]) -> int:
        """How many blocks would have no owner left if all of `tables` were released."""
        given_back = Counter(block for table in tables for block in table)
        return sum(1 for block, count in given_back.items() if self._references[block] == count)

    def reserve(self, count: int) -> list[int]:
        """Hand out `count` blocks to one owner. The caller has checked `num_available`."""
        assert count <= self.num_available, "a reservation is checked before it is made"
        return [self._take() for _ in range(count)]

    def _take(self) -> int:
        if self._free:
            block = heapq.heappop(self._free)
        else:
            block, _ = self._cached.popitem(last=False)
            self._indexed.discard(block)
            self._on_evict(block)
        assert self._references[block] == 0, "a block with an owner is never handed out"
        self._references[block] = 1
        return block

    def share(self, blocks: Sequence[int]) -> None:
        """Add an owner to each of `blocks`, all of which hold indexed content."""
        for block in blocks:
            assert block in self._indexed, "only indexed blocks are shared"
            num_owners = self._references[block]
            self._references[block] += 1
            if num_owners == 0:
                del self._cached[block]
            elif num_owners == 1:
                self._num_shared += 1

    def release(self, blocks: Sequence[int]) -> None:
        """Take one owner from each of a sequence's `blocks`, the tail first so that heads are evicted last."""
        for block in reversed(blocks):
            assert self._references[block] > 0, "a block is released once by each owner"
            self._references[block] -= 1
            if self._references[block] == 1:
                self._num_shared -= 1
            elif self._references[block] == 0:
                self._give_back(block)

    def _give_back(self, block: int) -> None:
        if block in self._indexed:
            self._cached[block] = None
        else:
            heapq.heappush(self._free, block)

    def keep(self, block: int) -> None:
        """Note that the prefix index knows the content of a referenced `block`."""
        assert self._references[block] > 0, "content is indexed by its owner"
        self._indexed.add(block)

    def is_free(self, block: int) -> bool:
        """Whether `block` has neither owner nor content."""
        return self._references[block] == 0 and block not in self._cached

    def check(self, tables: Iterable[Sequence[int]]) -> None:
        """Assert the laws of the pool against the block tables of all sequences."""
        held = Counter(block for table in tables for block in table)
        for block, references in enumerate(self._references):
            assert references == held[block], f"block {block} has {held[block]} owners and counts {references}"
        free, cached = set(self._free), set(self._cached)
        assert len(free) == len(self._free), "a block is free once"
        assert not free & cached, "free and cached are apart"
        assert not (free | cached) & held.keys(), "an owned block is neither free nor cached"
        assert len(free) + len(cached) + len(held) == self.num_blocks, "every block is somewhere"
        assert cached == {block for block in self._indexed if not held[block]}, "cached blocks are the indexed, unowned"
        assert self._num_shared == sum(1 for count in held.values() if count > 1), "shared blocks are counted"
