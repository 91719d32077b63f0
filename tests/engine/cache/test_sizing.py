import pytest

from config.settings import CacheSettings
from engine.cache.layout import CacheGroup, Layout, Reach, StateArray, StateGroup
from engine.cache.sizing import (
    MIN_CHECKPOINTS,
    USEFUL_CHECKPOINTS,
    CacheSizes,
    context_that_fits,
    most_blocks,
    num_units_for,
    plan_cache,
)
from engine.errors import CacheTooLarge, CacheTooSmall, StatesTooLarge
from tests.engine.cache.mixtures import GEMMA_3_1B, LLAMA_4_SCOUT, rows

MIB = 1 << 20
FULL = Layout((CacheGroup(tuple(range(30)), rows(3, 64, "float32")),))
BLOCK_BYTES = FULL.block_bytes(16)
SLOT_BYTES = 24 * 1000 * 4
STATES = (StateGroup("Mamba", tuple(range(24)), (StateArray("state", (1000,)),)),)
RECURRENT = Layout((), STATES)
HYBRID = Layout(FULL.groups, STATES)
WINDOW = Layout((CacheGroup((0, 1), rows(1, 8), Reach.WINDOW, 10), CacheGroup((2, 3), rows(1, 8))))


def sizes(
    layout: Layout = FULL,
    /,
    free_bytes: int = 1 << 34,
    max_sequences: int = 16,
    context_length: int = 8192,
    **cache: object,
) -> CacheSizes:
    settings = CacheSettings.model_validate(cache)
    limits = {"free_bytes": free_bytes, "max_sequences": max_sequences, "context_length": context_length}
    return plan_cache(layout, settings, **limits)


# -- units ------------------------------------------------------------------------------------


def test_a_set_number_of_blocks_is_taken() -> None:
    assert sizes(num_blocks=7, free_bytes=7 * BLOCK_BYTES) == CacheSizes(7)


def test_a_set_number_of_blocks_is_taken_in_every_group() -> None:
    assert sizes(GEMMA_3_1B, num_blocks=50) == CacheSizes(50 * 7)


def test_a_set_size_holds_as_many_units_as_fit() -> None:
    assert sizes(memory_bytes=10 * BLOCK_BYTES + 1, free_bytes=10 * BLOCK_BYTES) == CacheSizes(10)
    unit = GEMMA_3_1B.unit_bytes(16)
    assert sizes(GEMMA_3_1B, memory_bytes=100 * unit - 1) == CacheSizes(99)


@pytest.mark.parametrize("cache", [{"num_blocks": 8}, {"memory_bytes": 8 * BLOCK_BYTES}])
def test_more_than_is_free_is_refused_with_the_numbers(cache: dict[str, int]) -> None:
    with pytest.raises(CacheTooLarge, match=rf"takes {8 * BLOCK_BYTES} bytes, and {8 * BLOCK_BYTES - 1} are free"):
        sizes(free_bytes=8 * BLOCK_BYTES - 1, **cache)


def test_by_default_a_share_of_the_free_memory_is_taken() -> None:
    assert sizes(free_bytes=400 * BLOCK_BYTES) == CacheSizes(100)


def test_by_default_there_is_a_ceiling() -> None:
    assert sizes(free_bytes=1 << 50) == CacheSizes((2 << 30) // BLOCK_BYTES)


def test_by_default_no_more_is_taken_than_all_sequences_can_use() -> None:
    assert sizes(max_sequences=2, context_length=100) == CacheSizes(2 * 7)


def test_by_default_windows_have_room_for_what_later_prompts_may_find() -> None:
    assert sizes(GEMMA_3_1B, free_bytes=1 << 50, max_sequences=2, context_length=1024) == CacheSizes(
        2 * 1024 // 16 * sum(GEMMA_3_1B.widths)
    )


def test_by_default_small_states_have_no_more_checkpoints_than_are_of_use() -> None:
    assert sizes(HYBRID, max_sequences=5, free_bytes=1 << 40).num_slots == 5 + 5 * USEFUL_CHECKPOINTS


def test_where_blocks_are_set_checkpoints_are_a_part_of_what_they_take() -> None:
    assert sizes(HYBRID, num_blocks=64, max_sequences=5).num_slots == 5 + 64 * BLOCK_BYTES // 4 // SLOT_BYTES


@pytest.mark.parametrize("cache", [{"num_blocks": 3}, {"memory_bytes": 3 * BLOCK_BYTES}, {}])
def test_a_handful_of_blocks_is_refused_with_the_numbers(cache: dict[str, int]) -> None:
    with pytest.raises(CacheTooSmall, match=str(BLOCK_BYTES)):
        sizes(free_bytes=12 * BLOCK_BYTES, **cache)


def test_a_handful_of_blocks_is_counted_in_every_group() -> None:
    unit = GEMMA_3_1B.unit_bytes(16)

    assert sizes(GEMMA_3_1B, memory_bytes=28 * unit).num_units == 28
    with pytest.raises(CacheTooSmall, match=f"{27 * unit} bytes"):
        sizes(GEMMA_3_1B, memory_bytes=27 * unit)


# -- slots ------------------------------------------------------------------------------------


def test_a_model_without_recurrent_layers_has_no_slots() -> None:
    assert sizes(memory_bytes=100 * BLOCK_BYTES, checkpoint_bytes=10 * MIB).num_slots == 0


def test_every_sequence_that_may_run_has_a_slot_and_checkpoints_a_quarter_of_the_memory() -> None:
    memory = 100 * MIB

    found = sizes(HYBRID, memory_bytes=memory, max_sequences=5)

    assert found.num_slots == 5 + memory // 4 // SLOT_BYTES
    assert found.num_units == (memory - found.num_slots * SLOT_BYTES) // BLOCK_BYTES
    assert memory - BLOCK_BYTES < found.num_bytes(HYBRID, 16) <= memory


def test_the_memory_of_checkpoints_may_be_set() -> None:
    assert sizes(HYBRID, memory_bytes=100 * MIB, checkpoint_bytes=MIB).num_slots == 16 + MIB // SLOT_BYTES


def test_there_are_always_a_few_checkpoints() -> None:
    wide = Layout(FULL.groups, (StateGroup("Mamba", (0,), (StateArray("state", (MIB,)),)),))

    assert sizes(wide, memory_bytes=100 * MIB, checkpoint_bytes=MIB, max_sequences=3).num_slots == 3 + MIN_CHECKPOINTS


def test_without_prefix_caching_nobody_takes_checkpoints() -> None:
    assert sizes(HYBRID, memory_bytes=100 * MIB, prefix_caching=False, max_sequences=5).num_slots == 5


def test_a_model_of_states_alone_has_slots_and_no_units() -> None:
    assert sizes(RECURRENT, memory_bytes=100 * MIB, max_sequences=5) == CacheSizes(0, 5 + 25 * MIB // SLOT_BYTES)


def test_states_and_rows_that_are_more_than_is_free_are_refused_with_their_sum() -> None:
    taken = 8 * BLOCK_BYTES + (16 + MIB // SLOT_BYTES) * SLOT_BYTES

    with pytest.raises(CacheTooLarge, match=rf"takes {taken} bytes"):
        sizes(HYBRID, num_blocks=8, checkpoint_bytes=MIB, free_bytes=taken - 1)


@pytest.mark.parametrize("layout", [HYBRID, RECURRENT])
def test_states_that_are_more_than_the_memory_that_was_set_are_refused_with_the_numbers(layout: Layout) -> None:
    num_slots = 200 + 10 * MIB // 4 // SLOT_BYTES

    with pytest.raises(StatesTooLarge, match=f"{num_slots} recurrent states of {SLOT_BYTES} bytes.* {10 * MIB} bytes"):
        sizes(layout, memory_bytes=10 * MIB, max_sequences=200)
    assert sizes(layout, memory_bytes=30 * MIB, max_sequences=200).num_slots > 200


def test_states_that_leave_no_block_a_place_are_refused_as_a_cache_that_is_too_small() -> None:
    num_slots = 9 + MIB // SLOT_BYTES

    with pytest.raises(CacheTooSmall, match=f"has {BLOCK_BYTES} bytes"):
        sizes(HYBRID, memory_bytes=num_slots * SLOT_BYTES + BLOCK_BYTES, checkpoint_bytes=MIB, max_sequences=9)


# -- contexts ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("reach", "size", "block_size", "most"),
    [
        (Reach.FULL, 0, 16, None),
        (Reach.WINDOW, 1, 16, 1),
        (Reach.WINDOW, 16, 16, 2),
        (Reach.WINDOW, 17, 16, 2),
        (Reach.WINDOW, 18, 16, 3),
        (Reach.CHUNK, 16, 16, 2),
    ],
)
def test_a_window_that_begins_within_a_block_lies_in_one_more(
    reach: Reach, size: int, block_size: int, most: int | None
) -> None:
    assert most_blocks(CacheGroup((0,), rows(1, 8), reach, size), block_size) == most


@pytest.mark.parametrize(("size", "block_size"), [(1, 2), (3, 2), (4, 2), (5, 4), (8, 4), (9, 4)])
@pytest.mark.parametrize("reach", [Reach.WINDOW, Reach.CHUNK])
def test_no_position_needs_more_blocks_than_the_most(reach: Reach, size: int, block_size: int) -> None:
    group = CacheGroup((0,), rows(1, 8), reach, size)
    most = most_blocks(group, block_size)

    needed = [at // block_size - group.first_seen(at) // block_size + 1 for at in range(100)]

    assert most is not None
    assert max(needed) <= most


def test_a_sequence_holds_all_its_blocks_where_attention_is_full_and_a_window_of_them_elsewhere() -> None:
    assert [num_units_for(WINDOW, length, 2) for length in (1, 2, 3, 12, 13, 100)] == [2, 2, 4, 12, 13, 56]
    assert num_units_for(LLAMA_4_SCOUT, 100_000, 16) == 3 * 513 + 100_000 // 16


def test_the_context_is_what_the_pool_holds_of_one_sequence() -> None:
    assert context_that_fits(FULL, 10, 16, longest=8192) == 160
    assert context_that_fits(FULL, 10_000, 16, longest=8192) == 8192
    assert context_that_fits(FULL, 10, 16, longest=155) == 155


@pytest.mark.parametrize("num_units", [7, 12, 13, 14, 56])
def test_with_windows_the_context_is_the_longest_whose_units_are_there(num_units: int) -> None:
    fits = [length for length in range(1, 101) if num_units_for(WINDOW, length, 2) <= num_units]

    assert context_that_fits(WINDOW, num_units, 2, longest=100) == max(fits)


def test_states_alone_hold_any_context() -> None:
    assert context_that_fits(RECURRENT, 0, 16, longest=1 << 20) == 1 << 20
