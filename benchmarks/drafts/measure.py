"""The speed of requests with drafts, against the same requests without, by turns."""

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import median

from benchmarks.cache.subject import read, running
from benchmarks.drafts.workloads import Workload, document, new_text, workloads
from benchmarks.table import markdown, number
from engine.build import Built
from engine.engine import Engine
from engine.request import Request
from engine.stats import DraftCounts


@dataclass(frozen=True, slots=True)
class Compared:
    """One workload: output tokens a second by round, and what was drafted in all."""

    workload: Workload
    plain: tuple[float, ...]
    drafted: tuple[float, ...]
    drafts: DraftCounts

    @property
    def speed(self) -> float:
        """How many times as fast drafts are: the median of the rounds' ratios."""
        return median(mine / other for mine, other in zip(self.drafted, self.plain, strict=True))


async def measure(built: Built, *, num_outputs: int, num_streams: int, num_rounds: int) -> list[Compared]:
    """Run each workload `num_rounds` times with drafts and without, in turns, after a round that is not counted.

    Raises EngineError; AssertionError where drafts change an answer.
    """
    async with running(built.engine):
        whole, _ = await read(built.engine, document(built.tokenizer, num_outputs=num_outputs))
        found = workloads(built.tokenizer, whole, num_outputs=num_outputs, num_streams=num_streams)
        if built.engine.info.draft_model is not None:
            found.append(new_text(built.tokenizer, num_outputs=num_outputs))
        return [await _compare(built.engine, workload, num_rounds) for workload in found]


async def _compare(engine: Engine, workload: Workload, num_rounds: int) -> Compared:
    plain: list[float] = []
    drafted: list[float] = []
    before = _drafts(engine)
    for turn in range(num_rounds + 1):
        without = [replace(request, max_draft_tokens=0) for request in workload.requests]
        pair = [(without, plain), (list(workload.requests), drafted)]
        answers = []
        for requests, speeds in pair if turn % 2 else reversed(pair):
            outputs, seconds = await _timed(engine, requests)
            answers.append(outputs)
            speeds.append(sum(map(len, outputs)) / seconds)
        assert answers[0] == answers[1], "drafts change no token"
    after = _drafts(engine)
    drafts = DraftCounts(after.drafts - before.drafts, after.tokens - before.tokens, after.kept - before.kept)
    return Compared(workload, tuple(plain[1:]), tuple(drafted[1:]), drafts)


def _drafts(engine: Engine) -> DraftCounts:
    counts = engine.snapshot().drafts.values()
    return DraftCounts(*(sum(getattr(each, name) for each in counts) for name in ("drafts", "tokens", "kept")))


async def _timed(engine: Engine, requests: Sequence[Request]) -> tuple[list[list[int]], float]:
    began = time.perf_counter()
    answers = await asyncio.gather(*(read(engine, request) for request in requests))
    return [outputs for outputs, _ in answers], time.perf_counter() - began


def drafts_text(found: Sequence[Compared]) -> str:
    """A line for each workload, with the speed that was to be reached."""
    head = ("", "without, tokens/s", "with drafts", "times as fast", "target", "", "drafted tokens kept")
    return markdown(head, [_line(each) for each in found])


def _line(each: Compared) -> tuple[str, ...]:
    ratios = [mine / other for mine, other in zip(each.drafted, each.plain, strict=True)]
    speed = f"{each.speed:.2f} ({min(ratios):.2f} to {max(ratios):.2f})"
    kept = f"{each.drafts.kept:,} of {each.drafts.tokens:,}"
    met = "met" if each.speed >= each.workload.at_least else "missed"
    plain, drafted = (number(median(speeds)) for speeds in (each.plain, each.drafted))
    return each.workload.title, plain, drafted, speed, f"{each.workload.at_least:g}", met, kept
