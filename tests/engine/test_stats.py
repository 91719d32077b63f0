from dataclasses import replace

from engine.stats import CacheInfo, Histogram, Stats


def test_an_observation_counts_under_the_first_bound_that_holds_it() -> None:
    histogram = Histogram((1, 2, 4))
    for value in (0.5, 1, 1.5, 4, 5):
        histogram.observe(value)

    assert histogram.counts == [2, 1, 1, 1]
    assert histogram.sum == 12


def test_one_observation_may_stand_for_several() -> None:
    histogram = Histogram((1, 2))
    histogram.observe(1.5, 3)

    assert (histogram.counts, histogram.sum) == ([0, 3, 0], 4.5)


def test_a_view_of_a_histogram_stands_still() -> None:
    histogram = Histogram((1,))
    view = histogram.view()
    histogram.observe(0.5)

    assert (view.counts, view.sum) == ((0, 0), 0.0)
    assert histogram.view().counts == (1, 0)


def test_each_stage_of_a_step_has_its_own_times() -> None:
    stats = Stats()
    stats.observe_stage("plan", 0.1)
    stats.observe_stage("execute", 0.2)
    stats.observe_stage("plan", 0.3)

    assert {stage: sum(histogram.counts) for stage, histogram in stats.step_seconds.items()} == {
        "plan": 2,
        "execute": 1,
    }


def test_a_cache_holds_its_blocks_positions() -> None:
    cache = CacheInfo(block_size=16, num_blocks=10, block_bytes=1, dtype="float32", layout="one line")

    assert cache.num_positions == 160


def test_a_cache_of_several_groups_holds_as_many_positions_as_all_of_them_keep() -> None:
    plain = CacheInfo(16, 70, 100, "float32", "full attention", groups=("full attention",))
    mixed = replace(plain, groups=("full attention", "sliding window"), blocks_a_step=7, num_slots=3, slot_bytes=10)

    assert (plain.num_positions, plain.num_bytes, plain.by_group) == (70 * 16, 7000, False)
    assert (mixed.num_positions, mixed.num_bytes, mixed.by_group) == (160, 7030, True)
    assert replace(plain, forgets=True).by_group
    assert replace(plain, num_blocks=0, blocks_a_step=0).num_positions == 0
