import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from engine.cache.blocks import BlockPool
from engine.stats import BlockCounts


def pool_of(num_blocks: int) -> tuple[BlockPool, list[int]]:
    evicted: list[int] = []
    return BlockPool(num_blocks, on_evict=evicted.append), evicted


def cache(pool: BlockPool, blocks: list[int]) -> None:
    """Index and release the blocks of one owner."""
    for block in blocks:
        pool.keep(block)
    pool.release(blocks)


def test_free_blocks_are_handed_out_lowest_first() -> None:
    pool, _ = pool_of(6)
    first = pool.reserve(4)
    pool.release([first[2], first[0]])

    again = pool.reserve(3)

    assert first == [0, 1, 2, 3]
    assert again == [0, 2, 4]


def test_a_released_block_is_free_unless_it_is_indexed() -> None:
    pool, _ = pool_of(4)
    blocks = pool.reserve(3)
    pool.keep(blocks[0])

    pool.release(blocks)

    assert pool.counts() == BlockCounts(free=3, allocated=0, shared=0, cached=1)
    assert [pool.is_free(block) for block in range(4)] == [False, True, True, True]


def test_free_blocks_go_before_cached_ones() -> None:
    pool, evicted = pool_of(4)
    cache(pool, pool.reserve(2))

    blocks = pool.reserve(2)

    assert blocks == [2, 3]
    assert evicted == []


def test_of_cached_blocks_the_least_recently_released_goes_first_and_of_one_table_its_tail() -> None:
    pool, evicted = pool_of(4)
    first, second = pool.reserve(2), pool.reserve(2)
    cache(pool, second)
    cache(pool, first)

    pool.reserve(4)

    assert evicted == [second[1], second[0], first[1], first[0]]


def test_sharing_a_cached_block_makes_it_the_most_recent_once_it_is_released() -> None:
    pool, evicted = pool_of(3)
    for blocks in (pool.reserve(1), pool.reserve(1), pool.reserve(1)):
        cache(pool, blocks)
    pool.share([0])
    pool.release([0])

    pool.reserve(3)

    assert evicted == [1, 2, 0]


def test_a_block_with_an_owner_is_never_handed_out() -> None:
    pool, evicted = pool_of(2)
    blocks = pool.reserve(1)
    cache(pool, blocks)
    pool.share(blocks)

    assert pool.num_available == 1
    with pytest.raises(AssertionError, match="a reservation is checked"):
        pool.reserve(2)
    assert evicted == []


def test_a_shared_block_is_available_once_its_last_owner_has_released_it() -> None:
    pool, _ = pool_of(2)
    blocks = pool.reserve(1)
    pool.keep(blocks[0])
    pool.share(blocks)

    assert pool.counts() == BlockCounts(free=1, allocated=0, shared=1, cached=0)
    pool.release(blocks)
    assert pool.counts() == BlockCounts(free=1, allocated=1, shared=0, cached=0)
    pool.release(blocks)
    assert pool.counts() == BlockCounts(free=1, allocated=0, shared=0, cached=1)


def test_a_block_whose_content_nobody_knows_is_not_shared() -> None:
    pool, _ = pool_of(2)

    with pytest.raises(AssertionError, match="only indexed blocks are shared"):
        pool.share(pool.reserve(1))


def test_an_owner_releases_a_block_once() -> None:
    pool, _ = pool_of(2)
    blocks = pool.reserve(1)
    pool.release(blocks)

    with pytest.raises(AssertionError, match="released once"):
        pool.release(blocks)


def test_what_tables_would_free_counts_only_blocks_that_nobody_else_owns() -> None:
    pool, _ = pool_of(4)
    shared = pool.reserve(1)
    pool.keep(shared[0])
    pool.share(shared)
    first, second = [*shared, *pool.reserve(1)], [*shared, *pool.reserve(2)]

    assert pool.num_freed_by([first]) == 1
    assert pool.num_freed_by([first, second]) == 4


def test_a_check_names_the_block_whose_count_is_wrong() -> None:
    pool, _ = pool_of(2)
    pool.reserve(1)

    with pytest.raises(AssertionError, match="block 0 has 0 owners and counts 1"):
        pool.check([])


class PoolMachine(RuleBasedStateMachine):
    """Owners that reserve, index, share and release in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.known: set[int] = set()
        self.pool = BlockPool(6, on_evict=self.known.remove)
        self.tables: list[list[int]] = []

    @rule(count=st.integers(0, 6))
    def reserve(self, count: int) -> None:
        if count <= self.pool.num_available:
            blocks = self.pool.reserve(count)
            held = {block for table in self.tables for block in table}
            assert not held.intersection(blocks), "what is owned is not handed out"
            assert not self.known.intersection(blocks), "what is handed out is forgotten"
            self.tables.append(blocks)

    @precondition(lambda self: self.tables)
    @rule(index=st.integers(0, 5), count=st.integers(1, 6))
    def index(self, index: int, count: int) -> None:
        for block in self.tables[index % len(self.tables)][:count]:
            self.pool.keep(block)
            self.known.add(block)

    @rule(count=st.integers(1, 6))
    def share(self, count: int) -> None:
        blocks = sorted(self.known)[:count]
        before = self.pool.num_available
        taken = self.pool.num_cached(blocks)
        self.pool.share(blocks)
        assert self.pool.num_available == before - taken
        self.tables.append(blocks)

    @precondition(lambda self: self.tables)
    @rule(index=st.integers(0, 5))
    def release(self, index: int) -> None:
        table = self.tables.pop(index % len(self.tables))
        before, freed = self.pool.num_available, self.pool.num_freed_by([table])
        self.pool.release(table)
        assert self.pool.num_available == before + freed

    @invariant()
    def the_accounts_agree(self) -> None:
        self.pool.check(self.tables)
        counts = self.pool.counts()
        assert counts.free + counts.allocated + counts.shared + counts.cached == 6


TestPoolMachine = PoolMachine.TestCase
