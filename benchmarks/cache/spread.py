"""Several runs of one figure as text: the median, with the least and the most."""

from collections.abc import Sequence
from statistics import median

from benchmarks.table import number

THOUSAND = 1e3


def milliseconds(seconds: Sequence[float]) -> str:
    """Of times."""
    return _spread([number(value * THOUSAND) for value in (median(seconds), min(seconds), max(seconds))])


def percent(shares: Sequence[float]) -> str:
    """Of shares."""
    return _spread([f"{value:.1%}" for value in (median(shares), min(shares), max(shares))])


def _spread(texts: Sequence[str]) -> str:
    middle, least, most = texts
    return f"{middle} ({least} to {most})"
