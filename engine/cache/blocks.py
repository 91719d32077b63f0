"""BlockPool: who owns each block of the cache, which are free, and which go next."""

import heapq
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable, Sequence

from engine.look import FREE_UNIT, Hold, unit_code
from engine.stats import BlockCounts


class BlockPool:
    """Accounts of `num_units` units of memory, handed out as blocks of one or more; the contents live elsewhere.

    A block is named by the first of its units. It is *referenced* (one or more owners), *cached* (no owner, but
    the prefix index knows its content) or its units are *free*. Free units are handed out lowest id first, so
    that memory is touched no wider than the load needs; then cached blocks give up theirs, the least recently
    released first. `on_evict` is told of a cached block before its units are handed out. Counts are in units.
    """

    def __init__(self, num_units: int, *, on_evict: Callable[[int], None]) -> None:
        self.num_units = num_units
        self._on_evict = on_evict
        self._references = [0] * num_units
        self._free = list(range(num_units))  # a heap
        self._cached: OrderedDict[int, None] = OrderedDict()  # the next to evict comes first
        self._indexed: set[int] = set()
        self._wide: dict[int, tuple[int, ...]] = {}  # the units of blocks of more than one
        self._kinds = [0] * num_units  # what each block was handed out for
        self._codes = bytearray(num_units)  # how each unit stands, for onlookers
        self._num_cached_units = 0
        self._num_shared_units = 0

    @property
    def num_available(self) -> int:
        """Units that could be reserved now: free ones and those of cached blocks."""
        return len(self._free) + self._num_cached_units

    @property
    def num_free(self) -> int:
        """Units without content."""
        return len(self._free)

    def counts(self) -> BlockCounts:
        """How many units are in each state."""
        referenced = self.num_units - self.num_available
        return BlockCounts(
            free=len(self._free),
            allocated=referenced - self._num_shared_units,
            shared=self._num_shared_units,
            cached=self._num_cached_units,
        )

    def counts_of(self, kind: int) -> BlockCounts:
        """The same of blocks of one kind; what is free is free for all of them."""
        allocated, shared, cached = (self._codes.count(unit_code(kind, hold)) for hold in Hold)
        return BlockCounts(free=len(self._free), allocated=allocated, shared=shared, cached=cached)

    def codes(self) -> bytes:
        """How each unit stands: FREE_UNIT, or the `unit_code` of its block."""
        return bytes(self._codes)

    def block_of(self, unit: int) -> int | None:
        """The block that a unit belongs to; None where it is free."""
        if self._codes[unit] == FREE_UNIT:
            return None
        return next((block for block, units in self._wide.items() if unit in units), unit)

    def kind_of(self, block: int) -> int:
        """What a block that is not free was handed out for."""
        return self._kinds[block]

    def units(self, block: int) -> tuple[int, ...]:
        """The units of a block, its name first."""
        return self._wide.get(block, (block,))

    def owners(self, block: int) -> int:
        """How many sequences hold `block`."""
        return self._references[block]

    def num_cached(self, blocks: Iterable[int]) -> int:
        """How many units of `blocks` have no owner: sharing them takes them from what is available."""
        return sum(self._width(block) for block in blocks if self._references[block] == 0)

    def num_freed_by(self, blocks: Iterable[int]) -> int:
        """How many units would have no owner left if an owner were taken from each of `blocks`, as often as named."""
        given_back = Counter(blocks)
        return sum(self._width(block) for block, count in given_back.items() if self._references[block] == count)

    def _width(self, block: int) -> int:
        return len(self.units(block))

    def reserve(self, count: int, width: int = 1, kind: int = 0) -> list[int]:
        """Hand out `count` blocks of `width` units to one owner, for something of a `kind`.

        The caller has checked `num_available`.
        """
        assert count * width <= self.num_available, "a reservation is checked before it is made"
        return [self._take(width, kind) for _ in range(count)]

    def _take(self, width: int, kind: int) -> int:
        while len(self._free) < width:
            self._evict(next(iter(self._cached)))
        units = tuple(heapq.heappop(self._free) for _ in range(width))
        block = units[0]
        assert self._references[block] == 0, "a block with an owner is never handed out"
        self._references[block] = 1
        self._kinds[block] = kind
        if width > 1:
            self._wide[block] = units
        self._show(block, Hold.ALLOCATED)
        return block

    def _evict(self, block: int) -> None:
        del self._cached[block]
        self._num_cached_units -= self._width(block)
        self._indexed.discard(block)
        self._on_evict(block)
        self._free_units(block)

    def _free_units(self, block: int) -> None:
        for unit in self._wide.pop(block, (block,)):
            self._codes[unit] = FREE_UNIT
            heapq.heappush(self._free, unit)

    def _show(self, block: int, hold: Hold) -> None:
        code = unit_code(self._kinds[block], hold)
        for unit in self.units(block):
            self._codes[unit] = code

    def share(self, blocks: Sequence[int]) -> None:
        """Add an owner to each of `blocks`, all of which hold indexed content."""
        for block in blocks:
            assert block in self._indexed, "only indexed blocks are shared"
            num_owners = self._references[block]
            self._references[block] += 1
            if num_owners == 0:
                del self._cached[block]
                self._num_cached_units -= self._width(block)
                self._show(block, Hold.ALLOCATED)
            elif num_owners == 1:
                self._num_shared_units += self._width(block)
                self._show(block, Hold.SHARED)

    def release(self, blocks: Sequence[int]) -> None:
        """Take one owner from each of a sequence's `blocks`, the tail first so that heads are evicted last."""
        for block in reversed(blocks):
            assert self._references[block] > 0, "a block is released once by each owner"
            self._references[block] -= 1
            if self._references[block] == 1:
                self._num_shared_units -= self._width(block)
                self._show(block, Hold.ALLOCATED)
            elif self._references[block] == 0:
                self._give_back(block)

    def _give_back(self, block: int) -> None:
        if block in self._indexed:
            self._cached[block] = None
            self._num_cached_units += self._width(block)
            self._show(block, Hold.CACHED)
        else:
            self._free_units(block)

    def keep(self, block: int) -> None:
        """Note that the prefix index knows the content of a referenced `block`."""
        assert self._references[block] > 0, "content is indexed by its owner"
        self._indexed.add(block)

    def drop(self, block: int) -> None:
        """Evict a cached block now; one that has owners, or that nobody knows any more, stays as it is."""
        if block in self._cached:
            self._evict(block)

    def free_units(self) -> list[int]:
        """The units that have neither owner nor content."""
        return sorted(self._free)

    def check(self, blocks: Iterable[int]) -> None:
        """Assert the laws of the pool against the blocks of all sequences, each named once for each owner."""
        held = Counter(blocks)
        for block, references in enumerate(self._references):
            assert references == held[block], f"block {block} has {held[block]} owners and counts {references}"
        free, cached = set(self._free), set(self._cached)
        assert len(free) == len(self._free), "a unit is free once"
        assert not cached & held.keys(), "a cached block has no owner"
        units = [unit for block in (*cached, *held) for unit in self.units(block)] + self._free
        assert sorted(units) == list(range(self.num_units)), "every unit is somewhere, once"
        assert self._wide.keys() <= cached | held.keys(), "only blocks that are somewhere are wide"
        assert cached == {block for block in self._indexed if not held[block]}, "cached blocks are the indexed, unowned"
        assert self._num_cached_units == sum(map(self._width, cached)), "cached units are counted"
        shared = (block for block, count in held.items() if count > 1)
        assert self._num_shared_units == sum(map(self._width, shared)), "shared units are counted"
        self._check_codes(held)

    def _check_codes(self, held: Counter[int]) -> None:
        codes = bytearray(self.num_units)
        for block in (*self._cached, *held):
            for unit in self.units(block):
                codes[unit] = unit_code(self._kinds[block], Hold.by(held[block]))
        assert codes == self._codes, "each unit's state is shown"
