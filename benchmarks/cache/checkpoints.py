"""What checkpoints of recurrent states cost: a model with them beside the same model without, in turns."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import quantiles

from benchmarks.cache.spread import milliseconds
from benchmarks.cache.subject import Answered, Prompts, ask, make_engine, running
from benchmarks.table import markdown
from engine.engine import Engine

MAX_COST = 0.03  # of a step's time


@dataclass(frozen=True, slots=True)
class Pair:
    """The same prompt with checkpoints and without."""

    with_them: Answered
    without: Answered


@dataclass(frozen=True, slots=True)
class Cost:
    """All pairs of several loads, how many checkpoints each prompt left, and the bytes of one."""

    pairs: tuple[Pair, ...]
    num_loads: int
    length: int
    num_outputs: int
    num_checkpoints: float
    checkpoint_bytes: int


async def measure_cost(
    path: str, *, num_threads: int, length: int, num_outputs: int, num_rounds: int, num_loads: int
) -> Cost:
    """Load both several times, since where memory falls decides more than checkpoints do."""
    pairs: list[Pair] = []
    taken = slot_bytes = 0
    for load in range(num_loads):
        engines = [make_engine(path, num_threads=num_threads, prefix_caching=caching) for caching in (True, False)]
        pairs += await _pairs(engines, seed=load, length=length, num_outputs=num_outputs, num_rounds=num_rounds)
        taken += engines[0].snapshot().slots.cached
        slot_bytes = engines[0].info.cache.slot_bytes
    asked = num_loads * (num_rounds + 1)
    return Cost(tuple(pairs), num_loads, length, num_outputs, taken / asked, slot_bytes)


async def _pairs(engines: Sequence[Engine], *, seed: int, length: int, num_outputs: int, num_rounds: int) -> list[Pair]:
    """Each goes first in every other round; the first round is not counted."""
    prompts = Prompts(engines[0], seed=seed)
    pairs = []
    async with running(*engines):
        for number in range(num_rounds + 1):
            prompt = prompts.fresh(length)
            order = engines if number % 2 else engines[::-1]
            answers = [await ask(engine, prompt, num_outputs=num_outputs) for engine in order]
            pairs.append(Pair(*(answers if number % 2 else answers[::-1])))
    return pairs[1:]


def cost_text(cost: Cost) -> str:
    """A line for prompts and one for decoding, and whether both cost little enough."""
    prefill = [(pair.with_them.first_seconds, pair.without.first_seconds) for pair in cost.pairs]
    decode = [(_gap(pair.with_them), _gap(pair.without)) for pair in cost.pairs]
    rows = {
        f"a prompt of {cost.length:,}, first token": prefill,
        f"a step that decodes, of {cost.num_outputs - 1:,}": decode,
    }
    head = ("ms", "with checkpoints", "without", "cost, median (quartiles)")
    table = markdown(head, [_line(name, times) for name, times in rows.items()])
    return f"{table}\n\n{judgement(cost, rows.values())}"


def _gap(answered: Answered) -> float:
    assert answered.gap_seconds is not None, "several outputs were asked for"
    return answered.gap_seconds


Times = Sequence[tuple[float, float]]


def _line(name: str, times: Times) -> tuple[str, ...]:
    with_them, without = zip(*times, strict=True)
    low, middle, high = quartiles(times)
    return (name, milliseconds(with_them), milliseconds(without), f"{middle:+.1%} ({low:+.1%} to {high:+.1%})")


def quartiles(times: Times) -> tuple[float, float, float]:
    """Of what checkpoints add to each pair."""
    costs = [with_them / without - 1 for with_them, without in times]
    low, middle, high = quantiles(costs, n=4, method="inclusive") if len(costs) > 1 else costs * 3
    return low, middle, high


def judgement(cost: Cost, rows: Iterable[Times]) -> str:
    """Whether checkpoints cost little enough, and how many there were."""
    kept = [quartiles(times)[1] < MAX_COST for times in rows]
    return (
        f"Checkpoints are to cost under {MAX_COST:.0%}: kept by {sum(kept)} of {len(kept)}. {len(cost.pairs)} pairs of "
        f"runs in turns, from {cost.num_loads} loads of both; a prompt and its answer left {cost.num_checkpoints:.1f} "
        f"checkpoints, of {cost.checkpoint_bytes:,} bytes each."
    )
