"""What Tidemark is to reach, mostly as ratios to peers in the same run, and how far it came."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from benchmarks.peers import llama, openvino, transformers
from benchmarks.table import (
    CROWD,
    DECODE,
    FIRST_ANSWER,
    GAP_RATIO,
    LONGEST_GAP,
    PREFILL,
    RESIDENT,
    SHARED,
    Column,
    Measure,
    markdown,
    number,
)

TIDEMARK = "Tidemark"
Columns = Mapping[str, Column]


@dataclass(frozen=True)
class Target:
    """A figure, and where it is to be: at least `bound` where more is better, at most `bound` where less is."""

    title: str
    read: Callable[[Columns], float | None]
    bound: float
    aim: float | None = None
    more_is_better: bool = True
    unit: str = "×"

    def met(self, figure: float) -> bool:
        """Whether it is where it is to be."""
        return figure >= self.bound if self.more_is_better else figure <= self.bound

    def row(self, figure: float) -> tuple[str, ...]:
        """The figure beside what it is to be."""
        limit = "at least" if self.more_is_better else "at most"
        aim = "" if self.aim is None else f"{self.aim:g} {self.unit}"
        bound = f"{limit} {self.bound:g} {self.unit}"
        return self.title, f"{number(figure)} {self.unit}", bound, aim, "met" if self.met(figure) else "missed"


def times_more(measure: Measure, peer: str, bound: float, aim: float | None = None) -> Target:
    """How many times the peer's figure ours is, more being better."""
    return Target(_against(measure, peer), _ratio(measure, TIDEMARK, peer), bound, aim)


def times_less(measure: Measure, peer: str, bound: float, aim: float | None = None) -> Target:
    """How many times our figure the peer's is, less being better."""
    return Target(_against(measure, peer) + ": times less", _ratio(measure, peer, TIDEMARK), bound, aim)


def at_most(measure: Measure, bound: float, aim: float, unit: str) -> Target:
    """Our own figure, less being better."""

    def read(columns: Columns) -> float | None:
        return measure.median(columns[TIDEMARK]) if TIDEMARK in columns else None

    return Target(measure.title, read, bound, aim, more_is_better=False, unit=unit)


def _against(measure: Measure, peer: str) -> str:
    return f"{measure.title.partition(':')[0]}, against {peer}"


def _ratio(measure: Measure, above: str, below: str) -> Callable[[Columns], float | None]:
    def read(columns: Columns) -> float | None:
        if above not in columns or below not in columns:
            return None
        top, bottom = measure.median(columns[above]), measure.median(columns[below])
        return top / bottom if top is not None and bottom else None

    return read


TARGETS = (
    times_more(DECODE, llama.NAME, 1.2, 1.6),
    times_more(CROWD, llama.NAME, 2.5, 3.5),
    times_more(PREFILL, llama.NAME, 2.7, 3.3),
    times_more(SHARED, llama.NAME, 8, 10),
    times_less(LONGEST_GAP, llama.SMALL_BATCHES, 5),
    at_most(GAP_RATIO, 3, 2, "×"),
    at_most(FIRST_ANSWER, 8, 5, "s"),
    times_less(RESIDENT, llama.NAME, 1),
    times_more(DECODE, openvino.NAME, 2),
    times_more(CROWD, openvino.NAME, 1.5),
    times_more(PREFILL, openvino.NAME, 1.25),
    times_more(SHARED, openvino.NAME, 1.25),
    times_more(DECODE, transformers.NAME, 8),
    times_more(CROWD, transformers.NAME, 6),
    times_more(PREFILL, transformers.NAME, 3),
)


def judgement(columns: Sequence[Column]) -> str:
    """The targets that can be judged by what was measured, as a table, and how many are met."""
    named = {column.name: column for column in columns}
    judged = [(target, target.read(named)) for target in TARGETS]
    known = [(target, figure) for target, figure in judged if figure is not None]
    if not known:
        return "No target can be judged by what was measured."
    rows = [target.row(figure) for target, figure in known]
    num_met = sum(target.met(figure) for target, figure in known)
    return f"{markdown(('', 'measured', 'target', 'aim', ''), rows)}\n\nMet: {num_met} of {len(known)}."
