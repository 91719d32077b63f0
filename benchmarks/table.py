"""Figures as Markdown: one row for each measure, one column for each contender, with medians and spread."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median

from benchmarks.load import Summary
from benchmarks.measure import Run

ABSENT = "-"
FAILED = "failed"
WHOLE_FROM = 100  # figures from here on are shown without decimals

MILLISECONDS = 1e-3
GIB = 1 << 30
PERCENT = 100


@dataclass(frozen=True)
class Column:
    """All runs of one contender."""

    name: str
    runs: Sequence[Run]


@dataclass(frozen=True)
class Measure:
    """One figure of a run; None where it was not taken. `workload` is the one whose errors spoil it."""

    title: str
    read: Callable[[Run], float | None]
    workload: str | None = None

    def failed(self, column: Column) -> bool:
        """Whether requests failed where it was taken."""
        results = (run.results.get(self.workload or "") for run in column.runs)
        return any(result and result["errors"] for result in results)

    def values(self, column: Column) -> list[float]:
        """The figure of each run that has it; none where any failed."""
        read = [] if self.failed(column) else [self.read(run) for run in column.runs]
        return [value for value in read if value is not None]

    def median(self, column: Column) -> float | None:
        """The figure in the middle; None where there is none."""
        values = self.values(column)
        return median(values) if values else None

    def cell(self, column: Column) -> str:
        """The median as text, with the least and the most of several runs, or why there is none."""
        values = self.values(column)
        if self.failed(column) or not values:
            return FAILED if self.failed(column) else ABSENT
        spread = f" ({number(min(values))} to {number(max(values))})" if len(values) > 1 else ""
        return number(median(values)) + spread


def number(value: float) -> str:
    """Three digits, more where there are more before the point."""
    return f"{value:,.0f}" if value >= WHOLE_FROM else f"{value:.3g}"


def _of(workload: str, title: str, read: Callable[[Summary], float | None]) -> Measure:
    def of_run(run: Run) -> float | None:
        return read(run.results[workload]) if workload in run.results else None

    return Measure(f"{workload} {title}", of_run, workload)


def _seconds(milliseconds: float | None) -> float | None:
    return None if milliseconds is None else milliseconds * MILLISECONDS


def _longest_gap_during(result: Summary) -> float | None:
    return _seconds(result["during"]["max_ms"]) if "during" in result else None


def _gap_ratio(result: Summary) -> float | None:
    longest, usual = _longest_gap_during(result), _seconds(result["itl_p50_ms"])
    return longest / usual if longest and usual else None


def _first_token_of_the_long_one(result: Summary) -> float | None:
    return _seconds(result["long"]["ttft_ms"]) if "long" in result else None


def _resident_gib(run: Run) -> float | None:
    return None if run.resident_bytes is None else run.resident_bytes / GIB


def _others_percent(run: Run) -> float | None:
    return None if run.others_share is None else run.others_share * PERCENT


DECODE = _of("W1", "one stream: decoded tokens/s", lambda result: result["decode_per_s_p50"])
CROWD = _of("W2", "16 at once: output tokens/s", lambda result: result["output_per_s"])
PREFILL = _of("W3", "prompts of 1,024, 4 at once: prompt tokens/s", lambda result: result["prompt_per_s"])
SHARED = _of("W4", "a shared prefix of 1,024, 8 at once: output tokens/s", lambda result: result["output_per_s"])
LONGEST_GAP = _of("W5", "a prompt of 2,048 meets 8 streams: their longest gap, s", _longest_gap_during)
GAP_RATIO = _of("W5", "that gap, in median gaps of the 8 streams", _gap_ratio)
FIRST_ANSWER = Measure("from start to the first answer, s", lambda run: run.first_answer_seconds)
RESIDENT = Measure("resident memory after W2, GiB", _resident_gib)
MEASURES = (
    DECODE,
    _of("W1", "first token, s", lambda result: _seconds(result["ttft_p50_ms"])),
    CROWD,
    _of("W2", "gap between tokens, median, s", lambda result: _seconds(result["itl_p50_ms"])),
    _of("W2", "gap between tokens, longest, s", lambda result: _seconds(result["gap_max_ms"])),
    PREFILL,
    SHARED,
    _of("W4", "first token, median, s", lambda result: _seconds(result["ttft_p50_ms"])),
    LONGEST_GAP,
    GAP_RATIO,
    _of("W5", "the long prompt's first token, s", _first_token_of_the_long_one),
    _of("W5", "the 8 streams' output tokens/s", lambda result: result["output_per_s"]),
    FIRST_ANSWER,
    RESIDENT,
    Measure("cores that others took meanwhile, %", _others_percent),
)


def table(columns: Sequence[Column]) -> str:
    """All figures that any of the contenders has, or failed to give."""
    rows = [(measure.title, *(measure.cell(column) for column in columns)) for measure in MEASURES]
    taken = [row for row in rows if any(cell != ABSENT for cell in row[1:])]
    return markdown(("", *(column.name for column in columns)), taken)


def markdown(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table whose figures stand at the right."""
    rule = ("---", *("---:" for _ in head[1:]))
    return "\n".join("| " + " | ".join(row) + " |" for row in (head, rule, *rows))


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
