"""Families of one model: which labels their samples have."""

from engine.stats import Histogram
from server.exposition import Kind
from server.families import Families, cumulative, usage_ratio
from server.metrics import empty_snapshot

FAMILIES = Families(prefix="ours_", model_label="model", model="m")


def test_every_sample_names_the_model_and_then_its_own_labels() -> None:
    grid = {("a", "b"): 1.0, ("c", "d"): 2.0}

    assert FAMILIES.gauge("x", "", 3).lines == ['ours_x{model="m"} 3.0\n']
    assert FAMILIES.gauges("x", "", "of", {"a": 1}).lines == ['ours_x{model="m",of="a"} 1.0\n']
    assert FAMILIES.gauge_grid("x", "", ("p", "q"), grid).lines == [
        'ours_x{model="m",p="a",q="b"} 1.0\n',
        'ours_x{model="m",p="c",q="d"} 2.0\n',
    ]
    assert FAMILIES.counter("x", "", 3).lines == ['ours_x_total{model="m"} 3.0\n']
    assert FAMILIES.counters("x", "", "of", {"a": 1}).lines == ['ours_x_total{model="m",of="a"} 1.0\n']
    assert FAMILIES.counter_grid("x", "", ("p", "q"), {("a", "b"): 1}).lines == [
        'ours_x_total{model="m",p="a",q="b"} 1.0\n'
    ]


def test_a_family_has_its_name_with_the_prefix_what_it_is_and_its_text() -> None:
    family = FAMILIES.counter("x", "What it counts.", 3)

    assert (family.name, family.kind, family.text) == ("ours_x", Kind.COUNTER, "What it counts.")


def test_facts_are_labels_and_without_any_there_is_no_sample() -> None:
    assert FAMILIES.info("x", "", {"size": "16"}).lines == ['ours_x_info{model="m",size="16"} 1.0\n']
    assert FAMILIES.info("x", "", None).lines == []


def test_histograms_have_a_distribution_for_each_value_of_the_label() -> None:
    view = Histogram((0.1,)).view()

    lines = FAMILIES.histograms("x", "", "stage", {"plan": view, "run": view}).lines

    assert len(lines) == 2 * 4
    assert lines[0] == 'ours_x_bucket{le="0.1",model="m",stage="plan"} 0.0\n'
    assert FAMILIES.histogram("x", "", view).lines[-1] == 'ours_x_sum{model="m"} 0.0\n'


def test_buckets_count_everything_up_to_their_bound() -> None:
    histogram = Histogram((1, 2.5))
    for value in (1, 2, 2, 9):
        histogram.observe(value)

    assert cumulative(histogram.view()) == [("1.0", 1), ("2.5", 3), ("+Inf", 4)]


def test_where_there_are_neither_blocks_nor_slots_nothing_is_used() -> None:
    assert usage_ratio(empty_snapshot()) == 0.0
