from collections.abc import Sequence

import pytest

from benchmarks.watching.measure import Found, Pair, Round, Seen
from benchmarks.watching.processor import Processor
from benchmarks.watching.table import middle, sure, watching_text


def pairs_of(alone: Sequence[float], watched: Sequence[float], *, seconds: float = 1.0) -> list[Pair]:
    """Rounds with so many tokens a second, for which nothing was done."""
    nothing = Processor(0.0, 0.0)
    rounds = [[Round(round(rate * seconds), seconds, nothing) for rate in rates] for rates in (alone, watched)]
    return [Pair(*pair) for pair in zip(*rounds, strict=True)]


def cells(text: str, title: str) -> list[str]:
    (line,) = (line for line in text.splitlines() if line.startswith(f"| {title} "))
    return [cell.strip() for cell in line.strip("|").split("|")][1:]


def test_speeds_are_compared_pair_by_pair() -> None:
    pairs = pairs_of([100, 200, 100, 100, 100], [99, 196, 97, 100, 101], seconds=2.0)

    text = watching_text(Found(pairs, Seen(4, 2, 4000)))

    assert cells(text, "tokens/s") == ["100", "100", "-1.0%", "-2.0% to +0.0%", "-3.0% to +1.0%"]
    assert "\n\nSeen in 10 s: 4 snapshots of 1,000 bytes, 2 scrapes. " in text


def test_one_pair_is_its_own_middle() -> None:
    text = watching_text(Found(pairs_of([50], [50]), Seen()))

    assert cells(text, "tokens/s") == ["50", "50", "+0.0%", "+0.0% to +0.0%", "+0.0% to +0.0%"]
    assert "0 snapshots of 0 bytes, 0 scrapes." in text


def test_processor_time_is_told_for_each_token_and_as_a_share_of_a_core_at_the_speed_alone() -> None:
    alone = Round(1000, 2.0, Processor(loop=0.2, threads=3.0))
    watched = Round(1000, 4.0, Processor(loop=0.22, threads=3.5))

    text = watching_text(Found([Pair(alone, watched)], Seen()))

    assert cells(text, "event loop, µs a token") == ["200", "220", "+20.0", "+20.0 to +20.0", "+20.0 to +20.0"]
    assert cells(text, "all threads, µs a token")[:3] == ["3,000", "3,500", "+500.0"]
    assert text.endswith("Watching took 1.00% of a core (95% sure: 1.00% to 1.00%).")


def test_half_of_all_values_lie_in_the_middle() -> None:
    assert middle([5, 1, 2, 4, 3]) == (2, 4)
    assert middle([7]) == (7, 7)


@pytest.mark.parametrize(
    ("num", "first"),
    [(1, 0), (5, 0), (6, 0), (8, 0), (9, 1), (25, 7), (40, 13)],  # as tables of the sign test have it
)
def test_a_median_is_as_sure_as_signs_make_it(num: int, first: int) -> None:
    values = [float(value) for value in range(num)]

    assert sure(values[::-1]) == (first, num - 1 - first)
