"""Both formats, against what prometheus_client makes of them: it reads them and writes them again."""

from collections.abc import Callable, Iterable

import pytest
from prometheus_client import CollectorRegistry, Metric, generate_latest
from prometheus_client.openmetrics.exposition import generate_latest as generate_openmetrics
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse
from prometheus_client.registry import Collector

from server.exposition import Family, Kind, distribution, openmetrics_text, prometheus_text, sample

ODD = 'a "quoted" \\ name\nof two lines, {a="b"}'
FAMILIES = (
    Family("ours_heat", Kind.GAUGE, "How warm it is.", [sample("ours_heat", (("room", ODD),), -1.5)]),
    Family(
        "ours_doors",
        Kind.COUNTER,
        "Doors that went.",
        [sample("ours_doors_total", (("z", "1"), ("a", "2")), 12_345_678)],
    ),
    Family("ours_cup", Kind.INFO, "What it is.", [sample("ours_cup_info", (("made_of", "clay"),), 1)]),
    Family("ours_none", Kind.GAUGE, "Nothing yet.", []),
    Family(
        "process_bare",
        Kind.GAUGE,
        "Without labels.",
        [
            sample("process_bare", (), 1e-7),
        ],
    ),
    Family(
        "other:wait_seconds",
        Kind.HISTOGRAM,
        "How long it took.",
        [
            line
            for stage in ("plan", "run")
            for line in distribution(
                "other:wait_seconds",
                (("stage", stage), ("a", ODD)),
                [("0.1", 2), ("1.0", 2), ("+Inf", 5)],
                7.25,
            )
        ],
    ),
)


class _Given(Collector):
    def __init__(self, families: Iterable[Metric]) -> None:
        self._families = list(families)

    def collect(self) -> Iterable[Metric]:
        return self._families


def registry_of(families: Iterable[Metric]) -> CollectorRegistry:
    made = CollectorRegistry()
    made.register(_Given(families))
    return made


def again(text: str) -> str:
    return generate_latest(registry_of(parse(text))).decode()


def openmetrics_again(text: str) -> str:
    families = parse_openmetrics(text)  # type: ignore[no-untyped-call]  # the library leaves it untyped
    written: bytes = generate_openmetrics(registry_of(families), escaping="allow-utf-8")  # type: ignore[no-untyped-call]
    return written.decode()


def lines_of(text: str) -> list[tuple[str, float | None]]:
    """Lines, and the number that one ends with: there is more than one way to write it."""
    lines: list[tuple[str, float | None]] = []
    for line in text.splitlines():
        name, _, number = line.rpartition(" ")
        lines.append((line, None) if line.startswith("#") else (name, float(number)))
    return lines


@pytest.mark.parametrize(
    ("write", "write_again"), [(prometheus_text, again), (openmetrics_text, openmetrics_again)], ids=["text", "open"]
)
def test_prometheus_own_library_writes_what_it_reads_as_it_was_written(
    write: Callable[[Iterable[Family]], str], write_again: Callable[[str], str]
) -> None:
    text = write(FAMILIES)

    assert lines_of(text) == lines_of(write_again(text))
    assert len(lines_of(text)) > 2 * len(FAMILIES)


def test_labels_are_in_order_and_their_texts_escaped() -> None:
    assert sample("n", (("z", 'a"b'), ("a", "c\\\nd")), 2) == 'n{a="c\\\\\\nd",z="a\\"b"} 2.0\n'
    assert sample("n", (), 0.25) == "n 0.25\n"


def test_a_distribution_has_its_buckets_how_many_there_were_and_their_sum() -> None:
    lines = distribution("n", (("model", "m"), ("a", "b")), [("0.5", 1), ("+Inf", 3)], 2.5)

    assert lines == [
        'n_bucket{a="b",le="0.5",model="m"} 1.0\n',
        'n_bucket{a="b",le="+Inf",model="m"} 3.0\n',
        'n_count{a="b",model="m"} 3.0\n',
        'n_sum{a="b",model="m"} 2.5\n',
    ]


def test_what_a_counter_and_an_info_are_called_depends_on_the_format() -> None:
    text, openmetrics = prometheus_text(FAMILIES[1:3]), openmetrics_text(FAMILIES[1:3])

    assert "# TYPE ours_doors_total counter\n" in text
    assert "# TYPE ours_cup_info gauge\n" in text
    assert "# TYPE ours_doors counter\n" in openmetrics
    assert "# TYPE ours_cup info\n" in openmetrics
    assert openmetrics.endswith("\n# EOF\n")


def test_nothing_is_an_exposition_too() -> None:
    assert prometheus_text(()) == ""
    assert openmetrics_text(()) == "# EOF\n"
