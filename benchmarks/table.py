"""Figures as Markdown: one row for each measure, one column for each server, and the ratio of two."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from benchmarks.load import Summary
from benchmarks.measure import Run

ABSENT = "-"
FAILED = "failed"
WHOLE_FROM = 100  # figures from here on are shown without decimals

MILLISECONDS = 1e-3
GIB = 1 << 30


@dataclass(frozen=True)
class Measure:
    """One figure of a run; None where it was not taken.

    `workload` is the one whose errors spoil it. `judged`: whether it decides who is slower there.
    """

    title: str
    read: Callable[[Run], float | None]
    workload: str | None = None
    more_is_better: bool = True
    judged: bool = False

    def failed(self, run: Run) -> bool:
        """Whether requests failed where it was taken."""
        return self.workload in run.results and bool(run.results[self.workload]["errors"])

    def cell(self, run: Run) -> str:
        """The figure as text, or why there is none."""
        return FAILED if self.failed(run) else _number(self.read(run))

    def ratio(self, ours: Run, theirs: Run) -> float | None:
        """How many times better ours is; None where either is missing or failed."""
        mine, other = self.read(ours), self.read(theirs)
        if not mine or not other or self.failed(ours) or self.failed(theirs):
            return None
        return mine / other if self.more_is_better else other / mine


def _number(value: float | None) -> str:
    if value is None:
        return ABSENT
    return f"{value:,.0f}" if value >= WHOLE_FROM else f"{value:.3g}"


def _of(
    workload: str,
    title: str,
    read: Callable[[Summary], float | None],
    *,
    more_is_better: bool = True,
    judged: bool = False,
) -> Measure:
    def of_run(run: Run) -> float | None:
        return read(run.results[workload]) if workload in run.results else None

    return Measure(f"{workload} {title}", of_run, workload, more_is_better=more_is_better, judged=judged)


def _seconds(milliseconds: float | None) -> float | None:
    return None if milliseconds is None else milliseconds * MILLISECONDS


def _longest_gap_during(result: Summary) -> float | None:
    return _seconds(result["during"]["max_ms"]) if "during" in result else None


def _first_token_of_the_long_one(result: Summary) -> float | None:
    return _seconds(result["long"]["ttft_ms"]) if "long" in result else None


def _resident_gib(run: Run) -> float | None:
    return None if run.resident_bytes is None else run.resident_bytes / GIB


MEASURES = (
    _of("W1", "one stream: decoded tokens/s", lambda result: result["decode_per_s_p50"], judged=True),
    _of("W1", "first token, s", lambda result: _seconds(result["ttft_p50_ms"]), more_is_better=False),
    _of("W2", "16 at once: output tokens/s", lambda result: result["output_per_s"], judged=True),
    _of("W2", "gap between tokens, median, s", lambda result: _seconds(result["itl_p50_ms"]), more_is_better=False),
    _of("W2", "gap between tokens, longest, s", lambda result: _seconds(result["gap_max_ms"]), more_is_better=False),
    _of("W3", "prompts of 1,024, 4 at once: prompt tokens/s", lambda result: result["prompt_per_s"], judged=True),
    _of("W4", "a shared prefix of 1,024, 8 at once: output tokens/s", lambda r: r["output_per_s"], judged=True),
    _of("W4", "first token, median, s", lambda result: _seconds(result["ttft_p50_ms"]), more_is_better=False),
    _of(
        "W5",
        "a prompt of 2,048 meets 8 streams: their longest gap, s",
        _longest_gap_during,
        more_is_better=False,
        judged=True,
    ),
    _of("W5", "the long prompt's first token, s", _first_token_of_the_long_one, more_is_better=False),
    _of("W5", "the 8 streams' output tokens/s", lambda result: result["output_per_s"]),
    Measure("from start to the first answer, s", lambda run: run.first_answer_seconds, more_is_better=False),
    Measure("resident memory after W2, GiB", _resident_gib, more_is_better=False),
)


def table(run: Run) -> str:
    """One server's figures."""
    return _markdown(("", run.name), [(measure.title, measure.cell(run)) for measure in _taken(run)])


def comparison(ours: Run, theirs: Run) -> str:
    """Two servers' figures and how many times better ours are."""
    rows = [
        (measure.title, measure.cell(ours), measure.cell(theirs), _number(measure.ratio(ours, theirs)))
        for measure in _taken(ours, theirs)
    ]
    return _markdown(("", ours.name, theirs.name, "times better"), rows)


def _taken(*runs: Run) -> list[Measure]:
    """The measures that any of the runs has a figure or a failure for."""
    return [measure for measure in MEASURES if any(measure.cell(run) != ABSENT for run in runs)]


def _markdown(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    rule = ("---", *("---:" for _ in head[1:]))
    return "\n".join("| " + " | ".join(row) + " |" for row in (head, rule, *rows))


def verdict(ours: Run, theirs: Run, workloads: Sequence[str]) -> str:
    """One sentence: in which of these workloads ours is slower."""
    judged = [measure for measure in MEASURES if measure.judged and measure.workload in workloads]
    ratios = {measure.workload: measure.ratio(ours, theirs) for measure in judged}
    slower = [f"{name} ({ratio:.2f})" for name, ratio in ratios.items() if ratio is not None and ratio < 1]
    unknown = [str(name) for name, ratio in ratios.items() if ratio is None]
    said = f"{ours.name} is slower than {theirs.name} in {', '.join(slower)}" if slower else ""
    left = f"nothing can be said of {', '.join(unknown)}" if unknown else ""
    names = ", ".join(str(name) for name in ratios)
    return "; ".join(filter(None, (said, left))) or f"{ours.name} is no slower than {theirs.name} in {names}"


def put_between(text: str, mark: str, content: str) -> str:
    """`text` with `content` between its lines `<!-- MARK:begin -->` and `<!-- MARK:end -->`.

    Raises:
        ValueError: where the two lines are not there, once each and in order.
    """
    begin, end = f"<!-- {mark}:begin -->", f"<!-- {mark}:end -->"
    head, found_begin, rest = text.partition(begin)
    _, found_end, tail = rest.partition(end)
    if not (found_begin and found_end) or begin in tail or end in tail:
        raise ValueError(f"the text needs {begin} and, after it, {end}, once each")
    return f"{head}{begin}\n{content}\n{end}{tail}"
