"""The speed of requests that follow a grammar, against the same requests without one, by turns."""

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import median

from benchmarks.cache.subject import read, running
from benchmarks.structure.workloads import Workload, grammars_of, workloads
from benchmarks.table import markdown, number
from engine.build import Built
from engine.engine import Engine
from engine.request import Request

AT_LEAST = 0.9  # of the speed without a grammar


@dataclass(frozen=True, slots=True)
class Compared:
    """One workload: output tokens a second by round, and the share of the steps' time that masks were waited for.

    `bare` and `bound` are without drafts, without and with the grammar; `drafted` follows the grammar with drafts.
    """

    workload: Workload
    bare: tuple[float, ...]
    bound: tuple[float, ...]
    drafted: tuple[float, ...]
    waited: float

    @property
    def ratios(self) -> list[float]:
        """The speed with the grammar relative to that without, by round."""
        return [mine / other for mine, other in zip(self.bound, self.bare, strict=True)]


async def measure(built: Built, *, num_outputs: int, num_streams: int, num_rounds: int) -> list[Compared]:
    """Run each workload `num_rounds` times in each way, in turns, after a round that is not counted.

    Raises EngineError.
    """
    found = workloads(built.tokenizer, num_outputs=num_outputs, num_streams=num_streams)
    async with running(built.engine):
        for grammar in grammars_of(found):
            await built.engine.prepare(grammar)
        return [await _compare(built.engine, workload, num_rounds) for workload in found]


async def _compare(engine: Engine, workload: Workload, num_rounds: int) -> Compared:
    drafted = list(workload.requests)
    bound = [replace(request, max_draft_tokens=0) for request in drafted]
    bare = [replace(request, grammar=None) for request in bound]
    ways: list[tuple[list[Request], list[float]]] = [(bare, []), (bound, []), (drafted, [])]
    waited = [0.0, 0.0]
    for turn in range(num_rounds + 1):
        for requests, speeds in ways if turn % 2 else reversed(ways):
            before = _seconds(engine)
            speeds.append(await _speed(engine, requests))
            if requests is bound:
                waited = [sum_ + now - then for sum_, now, then in zip(waited, _seconds(engine), before, strict=True)]
    bare_speeds, bound_speeds, drafted_speeds = (tuple(found[1:]) for _, found in ways)
    return Compared(workload, bare_speeds, bound_speeds, drafted_speeds, waited[0] / waited[1])


def _seconds(engine: Engine) -> list[float]:
    """What was waited for masks so far, and what all steps took."""
    stages = engine.snapshot().step_seconds
    return [stages[stage].sum if stage in stages else 0.0 for stage in ("masks", "execute")]


async def _speed(engine: Engine, requests: Sequence[Request]) -> float:
    began = time.perf_counter()
    answers = await asyncio.gather(*(read(engine, request) for request in requests))
    return sum(len(outputs) for outputs, _ in answers) / (time.perf_counter() - began)


def structure_text(found: Sequence[Compared]) -> str:
    """A line for each workload, with the speed that was to be reached."""
    head = ("", "without a grammar, tokens/s", "with it", "share", "at least", "", "waited for masks", "with drafts")
    return markdown(head, [_line(each) for each in found])


def _line(each: Compared) -> tuple[str, ...]:
    share = median(each.ratios)
    told = f"{share:.2f} ({min(each.ratios):.2f} to {max(each.ratios):.2f})"
    bare, bound, drafted = (number(median(speeds)) for speeds in (each.bare, each.bound, each.drafted))
    met = "met" if share >= AT_LEAST else "missed"
    return each.workload.title, bare, bound, told, f"{AT_LEAST:g}", met, f"{each.waited:.1%}", drafted
