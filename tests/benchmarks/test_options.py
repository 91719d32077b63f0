from argparse import Namespace
from collections.abc import Sequence

import pytest

from benchmarks.conditions import Conditions
from benchmarks.load import Size
from benchmarks.measure import Contender, Run
from benchmarks.options import caption, measured, parser_of, tidemark
from benchmarks.process import ServerFailed
from benchmarks.table import Column
from tests.benchmarks.runs import a_run, a_summary


def args_of(*arguments: str) -> Namespace:
    return parser_of("").parse_args(["--model", "m.gguf", *arguments])


class Order:
    """Contenders that note when they are measured, and what they are asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, list[str]]] = []

    def contender(self, name: str, *, fails: bool = False, left_out: frozenset[str] = frozenset()) -> Contender:
        def fill(run: Run, workloads: Sequence[str], _size: Size) -> None:
            self.asked.append((name, list(workloads)))
            run.results = {workload: a_summary() for workload in workloads}
            if fails:
                raise ServerFailed(f"{name} is gone")

        return Contender(name, "as it comes", fill, left_out)


def test_contenders_are_measured_in_turns() -> None:
    order = Order()

    columns = measured(args_of("--repeat", "2", "--only", "W1"), [order.contender("a"), order.contender("b")])

    assert [name for name, _ in order.asked] == ["a", "b", "a", "b"]
    assert [(column.name, len(column.runs)) for column in columns] == [("a", 2), ("b", 2)]


def test_a_contender_is_not_asked_what_it_leaves_out() -> None:
    order = Order()

    measured(args_of("--only", "W1,W5"), [order.contender("a", left_out=frozenset({"W1"}))])

    assert order.asked == [("a", ["W5"])]


def test_what_a_contender_gave_before_it_failed_is_kept() -> None:
    (column,) = measured(args_of("--only", "W1"), [Order().contender("a", fails=True)])

    (run,) = column.runs
    assert run.errors() == ["a is gone"]
    assert list(run.results) == ["W1"]


@pytest.mark.parametrize(
    ("flags", "about"),
    [
        ((), "`--num-blocks 2560`"),
        (("--max-sequences", "32"), "`--num-blocks 2560 --max-sequences 32`"),
        (("--cache-memory=1GiB",), "`--cache-memory=1GiB`"),
    ],
)
def test_the_cache_is_as_large_as_the_peers_unless_it_is_set(flags: Sequence[str], about: str) -> None:
    assert tidemark(args_of("--", *flags)).about.startswith(about)


def test_a_caption_says_what_the_figures_need() -> None:
    conditions = Conditions("Some CPU", ("avx2",), 2, 24 << 30, 0.0, "abc", {"Python": "3.11.1"}, "2026-01-02")
    columns = [Column("a", [a_run("a"), a_run("a")])]

    text = caption(args_of("--repeat", "2", "--scale", "0.5"), conditions, [Order().contender("a")], columns)

    assert "m.gguf; 2026-01-02, commit abc; Some CPU (avx2)" in text
    assert "the machine was quiet meanwhile (others took 2% of the cores)" in text
    assert "Medians of 2 runs" in text
    assert "W2, W3 and W4 had 0.5 of their requests." in text
    assert "a: as it comes." in text
