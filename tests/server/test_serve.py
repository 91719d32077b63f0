"""The line at the start: what is served, and how its cache is laid out."""

from dataclasses import replace

import pytest

from engine.stats import CacheInfo
from server.serve import describe
from tests.fakes import INFO

MIB = 1 << 20
PLAIN = CacheInfo(16, 100, MIB, "bfloat16", "full attention, 30 layers, 3 kv heads x 64", groups=("full attention",))
GROUPS = ("sliding window of 512, 22 layers, 1 kv heads x 256", "full attention, 4 layers, 1 kv heads x 256")


def cache_line(cache: CacheInfo) -> str:
    head, _, line = describe(replace(INFO, cache=cache)).partition("; cache: ")
    assert head == "org/tiny (fake, float32, context 64) on fakes"
    return line


def test_one_group_is_told_with_its_blocks_positions_and_bytes() -> None:
    assert cache_line(PLAIN) == (
        "full attention, 30 layers, 3 kv heads x 64, bfloat16, 100 blocks x 16 = 1600 positions, 100.0MiB"
    )


def test_several_groups_are_told_with_how_many_blocks_they_take_together_and_what_is_wasted() -> None:
    cache = replace(PLAIN, layout="; ".join(GROUPS), groups=GROUPS, forgets=True, blocks_a_step=7, waste=0.0714)

    assert cache_line(cache) == (
        f"{GROUPS[0]}; {GROUPS[1]}, bfloat16, 100 blocks (7 for all groups) x 16 = 228 positions, "
        "7.1% of their bytes unused, 100.0MiB"
    )


@pytest.mark.parametrize("waste", [0.0, 0.0004])
def test_no_waste_is_not_told(waste: float) -> None:
    assert "unused" not in cache_line(replace(PLAIN, waste=waste))


def test_states_are_told_with_their_slots_and_bytes() -> None:
    cache = replace(PLAIN, num_slots=20, slot_bytes=3 * MIB)

    assert cache_line(cache).endswith("100 blocks x 16 = 1600 positions, 20 state slots x 3.0MiB, 160.0MiB")


def test_a_model_without_rows_is_told_with_its_slots_alone() -> None:
    cache = CacheInfo(16, 0, 0, "float32", "Mamba states, 24 layers, 3,145,728 bytes each", blocks_a_step=0)

    line = cache_line(replace(cache, num_slots=20, slot_bytes=3 * MIB))

    assert line == "Mamba states, 24 layers, 3,145,728 bytes each, 20 state slots x 3.0MiB, 60.0MiB"
