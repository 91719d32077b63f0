from collections.abc import Callable

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from engine.cache.blocks import BlockPool
from engine.look import FREE_UNIT, Hold, unit_code
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
    assert pool.free_units() == [1, 2, 3]


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

    assert pool.num_freed_by(first) == 1
    assert pool.num_freed_by([*first, *second]) == 4


def test_a_check_names_the_block_whose_count_is_wrong() -> None:
    pool, _ = pool_of(2)
    pool.reserve(1)

    with pytest.raises(AssertionError, match="block 0 has 0 owners and counts 1"):
        pool.check([])


# -- blocks of several units --------------------------------------------------------------------


def test_a_wide_block_takes_and_gives_back_all_its_units_at_once() -> None:
    pool, evicted = pool_of(6)
    [narrow], wide = pool.reserve(1), pool.reserve(2, width=2)

    assert [pool.units(block) for block in (narrow, *wide)] == [(0,), (1, 2), (3, 4)]
    assert pool.counts() == BlockCounts(free=1, allocated=5, shared=0, cached=0)
    assert pool.num_freed_by([narrow, *wide]) == 5
    cache(pool, wide)
    assert (pool.num_available, pool.counts().cached, pool.num_cached(wide)) == (5, 4, 4)

    [widest] = pool.reserve(1, width=3)

    assert (evicted, pool.units(widest)) == ([wide[1]], (3, 4, 5))
    pool.check([narrow, widest])


def test_a_wide_block_that_is_shared_counts_with_all_its_units() -> None:
    pool, _ = pool_of(6)
    blocks = pool.reserve(1, width=3)
    pool.keep(blocks[0])

    pool.share(blocks)

    assert pool.counts() == BlockCounts(free=3, allocated=0, shared=3, cached=0)
    pool.release(blocks)
    pool.release(blocks)
    assert pool.counts() == BlockCounts(free=3, allocated=0, shared=0, cached=3)


def test_blocks_of_one_kind_are_counted_apart_and_what_is_free_is_free_for_all() -> None:
    pool, _ = pool_of(9)
    first, second = pool.reserve(2, width=1, kind=0), pool.reserve(2, width=2, kind=1)
    pool.keep(second[0])
    pool.share(second[:1])
    cache(pool, first[:1])

    assert pool.counts_of(0) == BlockCounts(free=3, allocated=1, shared=0, cached=1)
    assert pool.counts_of(1) == BlockCounts(free=3, allocated=2, shared=2, cached=0)


def test_each_unit_shows_the_group_and_the_hold_of_its_block() -> None:
    pool, _ = pool_of(6)
    seen = [pool.codes()]
    blocks = pool.reserve(1, width=2, kind=1)
    seen.append(pool.codes())
    pool.keep(blocks[0])
    for move in (pool.share, pool.release, pool.release, pool.share, pool.release):
        move(blocks)
        seen.append(pool.codes())
    pool.drop(blocks[0])

    allocated, shared, cached = (unit_code(1, hold) for hold in (Hold.ALLOCATED, Hold.SHARED, Hold.CACHED))
    assert [codes[0] for codes in seen] == [FREE_UNIT, allocated, shared, allocated, cached, allocated, cached]
    assert all(codes[0] == codes[1] and not any(codes[2:]) for codes in seen)
    assert pool.codes() == bytes(6)


def test_any_unit_leads_to_its_block_and_a_free_one_to_none() -> None:
    pool, _ = pool_of(6)
    [narrow], [wide] = pool.reserve(1), pool.reserve(1, width=3, kind=1)

    assert [pool.block_of(unit) for unit in range(6)] == [narrow, wide, wide, wide, None, None]
    assert (pool.kind_of(narrow), pool.kind_of(wide)) == (0, 1)


def test_a_cached_block_may_be_evicted_at_once_and_one_with_owners_may_not() -> None:
    pool, evicted = pool_of(4)
    blocks = pool.reserve(3)
    cache(pool, blocks)
    pool.share(blocks[:1])

    pool.drop(blocks[0])
    pool.drop(blocks[1])

    assert evicted == [blocks[1]]
    assert pool.owners(blocks[0]) == 1


@pytest.mark.parametrize(
    ("ruin", "law"),
    [
        (lambda pool: pool._free.pop(), "every unit is somewhere, once"),
        (lambda pool: pool._free.append(pool._free[0]), "a unit is free once"),
        (lambda pool: pool._wide.update({5: (5, 4)}), "only blocks that are somewhere are wide"),
        (lambda pool: pool._indexed.clear(), "cached blocks are the indexed, unowned"),
        (lambda pool: setattr(pool, "_num_cached_units", 0), "cached units are counted"),
        (lambda pool: setattr(pool, "_num_shared_units", 1), "shared units are counted"),
        (lambda pool: pool._codes.__setitem__(0, 3), "each unit's state is shown"),
    ],
)
def test_a_check_finds_units_that_are_lost_doubled_or_counted_wrong(
    ruin: Callable[[BlockPool], None], law: str
) -> None:
    pool, _ = pool_of(6)
    blocks = pool.reserve(1, width=2)
    cache(pool, pool.reserve(1))
    pool.check(blocks)

    ruin(pool)

    with pytest.raises(AssertionError, match=law):
        pool.check(blocks)


class PoolMachine(RuleBasedStateMachine):
    """Owners that reserve blocks of one to three units, index, share and release them in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.known: set[int] = set()
        self.pool = BlockPool(8, on_evict=self.known.remove)
        self.tables: list[list[int]] = []
        self.units: dict[int, tuple[int, ...]] = {}  # of every block, as it was handed out

    @rule(count=st.integers(0, 6), width=st.integers(1, 3))
    def reserve(self, count: int, width: int) -> None:
        if count * width <= self.pool.num_available:
            owned = {unit for table in self.tables for block in table for unit in self.units[block]}
            blocks = self.pool.reserve(count, width, kind=width)
            self.units |= {block: self.pool.units(block) for block in blocks}
            taken = [unit for block in blocks for unit in self.units[block]]
            assert len(set(taken)) == len(taken) == count * width
            assert not owned.intersection(taken), "what is owned is not handed out"
            known = {unit for block in self.known for unit in self.pool.units(block)}
            assert not known.intersection(taken), "what is handed out is forgotten"
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
        before, freed = self.pool.num_available, self.pool.num_freed_by(table)
        self.pool.release(table)
        assert self.pool.num_available == before + freed

    @precondition(lambda self: self.known)
    @rule(index=st.integers(0, 5))
    def evict(self, index: int) -> None:
        block = sorted(self.known)[index % len(self.known)]
        owners = self.pool.owners(block)
        self.pool.drop(block)
        assert (block in self.known) == (owners > 0), "what has owners stays"

    @invariant()
    def the_accounts_agree(self) -> None:
        held = [block for table in self.tables for block in table]
        self.pool.check(held)
        counts = self.pool.counts()
        assert counts.free + counts.allocated + counts.shared + counts.cached == 8
        assert all(self.pool.units(block) == self.units[block] for block in {*held, *self.known}), (
            "a block stays itself"
        )
        kinds = [self.pool.counts_of(width) for width in (1, 2, 3)]
        assert sum(kind.allocated for kind in kinds) == counts.allocated
        assert sum(kind.shared for kind in kinds) == counts.shared
        assert sum(kind.cached for kind in kinds) == counts.cached


TestPoolMachine = PoolMachine.TestCase
