"""Time to the first token of prompts that begin as others did."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from benchmarks.cache.spread import milliseconds, percent
from benchmarks.cache.subject import Prompts, ask, running
from benchmarks.table import markdown
from engine.engine import Engine

SHARED = 0.9  # of a prompt, with those before it
MAX_SHARE = 0.15  # of the first prompt's time, for one whose beginning is cached
NTH = ("first", "second", "third")


@dataclass(frozen=True, slots=True)
class Hits:
    """What each of three prompts with one beginning took, by round: seconds [rounds][3], and positions found."""

    name: str
    seconds: tuple[tuple[float, ...], ...]
    found: tuple[int, ...]

    def of(self, number: int) -> list[float]:
        """The seconds of the n-th prompt."""
        return [each[number] for each in self.seconds]

    def shares(self, number: int) -> list[float]:
        """Those of the n-th prompt, of the first's in the same round."""
        return [each[number] / each[0] for each in self.seconds]


async def measure_hits(name: str, engine: Engine, *, length: int, num_rounds: int) -> Hits:
    """Each round has a new beginning; the first round is not counted."""
    prompts = Prompts(engine, seed=1)
    async with running(engine):
        rounds = [await _round(engine, prompts, length) for _ in range(num_rounds + 1)]
    seconds = tuple(tuple(taken for taken, _ in each) for each in rounds[1:])
    return Hits(name, seconds, tuple(found for _, found in rounds[-1]))


async def _round(engine: Engine, prompts: Prompts, length: int) -> list[tuple[float, int]]:
    beginning = prompts.fresh(int(length * SHARED))
    answers = [await ask(engine, beginning + prompts.fresh(length - len(beginning))) for _ in NTH]
    return [(answer.first_seconds, answer.cached_tokens) for answer in answers]


def hits_text(found: Sequence[Hits]) -> str:
    """A line for each model, and whether the third prompt was soon enough."""
    head = ("first token, ms", "first prompt", "second", "found", "third", "found", "third, of the first")
    lines = [
        (
            hits.name,
            milliseconds(hits.of(0)),
            milliseconds(hits.of(1)),
            f"{hits.found[1]:,}",
            milliseconds(hits.of(2)),
            f"{hits.found[2]:,}",
            percent(hits.shares(2)),
        )
        for hits in found
    ]
    return f"{markdown(head, lines)}\n\n{judgement(found)}"


def judgement(found: Sequence[Hits]) -> str:
    """For how many models a cached beginning saves enough."""
    kept = sum(median(hits.shares(2)) < MAX_SHARE for hits in found)
    return (
        f"A prompt of which {SHARED:.0%} are cached is to take under {MAX_SHARE:.0%} of the time: kept by {kept} of "
        f"{len(found)} models. Medians of {len(found[0].seconds)} rounds, with the least and the most."
    )
