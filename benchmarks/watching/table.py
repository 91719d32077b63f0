"""What watching costs as a table: what it changed in each pair of rounds, and how sure the median of that is."""

from collections.abc import Callable, Sequence
from math import comb
from statistics import median, quantiles

from benchmarks.table import markdown
from benchmarks.watching.measure import Found, Pair
from benchmarks.watching.processor import Processor

CERTAINTY = 0.95
MICRO = 1e6
HEADS = ("the same requests", "alone", "watched", "by watching, median", "half of the pairs", "that median, 95% sure")


def watching_text(found: Found) -> str:
    """The table, what was seen, and how much of a core watching took."""
    loop = _used(found.pairs, lambda used: used.loop)
    threads = _used(found.pairs, lambda used: used.threads)
    rows = (_speed(found.pairs), _times("event loop, µs a token", loop), _times("all threads, µs a token", threads))
    return f"{markdown(HEADS, rows)}\n\n{_seen(found)} {_share(found.pairs, loop)}"


def _speed(pairs: Sequence[Pair]) -> tuple[str, ...]:
    changes = [pair.watched.rate / pair.alone.rate - 1 for pair in pairs]
    rates = (median(pair.alone.rate for pair in pairs), median(pair.watched.rate for pair in pairs))
    return ("tokens/s", *(f"{rate:.0f}" for rate in rates), *_spread(changes, "{:+.1%}"))


Used = tuple[list[float], list[float]]  # seconds a token by round: alone, watched


def _used(pairs: Sequence[Pair], of: Callable[[Processor], float]) -> Used:
    rounds = ([pair.alone for pair in pairs], [pair.watched for pair in pairs])
    alone, watched = ([of(each.processor) / each.tokens for each in ones] for ones in rounds)
    return alone, watched


def _times(title: str, used: Used) -> tuple[str, ...]:
    changes = [(watched - alone) * MICRO for alone, watched in zip(*used, strict=True)]
    return (title, *(f"{median(each) * MICRO:,.0f}" for each in used), *_spread(changes, "{:+.1f}"))


def _spread(changes: Sequence[float], shown: str) -> tuple[str, str, str]:
    """Their median, what half of them lie between, and what the median of many more would."""
    return (shown.format(median(changes)), _range(middle(changes), shown), _range(sure(changes), shown))


def _range(ends: tuple[float, float], shown: str) -> str:
    return " to ".join(shown.format(end) for end in ends)


def _seen(found: Found) -> str:
    seen, seconds = found.seen, sum(pair.watched.seconds for pair in found.pairs)
    size = seen.num_bytes / max(1, seen.snapshots)
    return f"Seen in {seconds:.0f} s: {seen.snapshots} snapshots of {size:,.0f} bytes, {seen.scrapes} scrapes."


def _share(pairs: Sequence[Pair], loop: Used) -> str:
    """What the event loop did more, at the speed alone: the streams wait for nothing else of watching."""
    shares = [(watched - alone) * pair.alone.rate for pair, alone, watched in zip(pairs, *loop, strict=True)]
    return f"Watching took {median(shares):.2%} of a core ({CERTAINTY:.0%} sure: {_range(sure(shares), '{:.2%}')})."


def middle(values: Sequence[float]) -> tuple[float, float]:
    """The values that half of all lie between."""
    if len(values) == 1:
        return values[0], values[0]
    first, _, third = quantiles(values, n=4, method="inclusive")
    return first, third


def sure(values: Sequence[float]) -> tuple[float, float]:
    """What the median that they were drawn around lies between, as sure as CERTAINTY; of too few, all of them.

    By signs alone: each value is as likely above it as below, so that it rarely has only a few on one side.
    """
    ordered, num = sorted(values), len(values)
    num_outside, chance = 0, 0.5**num  # so few of them on one side, which is as rare as that
    while chance <= (1 - CERTAINTY) / 2:
        num_outside += 1
        chance += comb(num, num_outside) * 0.5**num
    first = max(0, num_outside - 1)
    return ordered[first], ordered[num - 1 - first]
