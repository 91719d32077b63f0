"""Values: what a server's JSON is taken for."""

import math
from collections.abc import Mapping
from typing import Any

from server.terminal.plain import plain

Json = Mapping[str, Any]  # JSON by its nature
WRONG = (KeyError, TypeError, ValueError, AttributeError, OverflowError)  # what reading another JSON ends with
_ENDS = str.maketrans({"\n": "\\n", "\r": "\\r", "\t": "\\t"})


class NoSight(Exception):
    """What came is not what was asked for."""


def number_of(value: float) -> float:
    """A number that is one. Raises ValueError."""
    if not math.isfinite(value):
        raise ValueError(value)
    return float(value)


def count_of(value: int | None) -> int | None:
    """A count, if it is known."""
    return None if value is None else int(value)


def counts_of(body: Json, *names: str) -> dict[str, int]:
    """Counts by their names."""
    return {name: int(body[name]) for name in names}


def text_of(value: object) -> str:
    """What a terminal may be given."""
    return plain(str(value))


def shown_of(value: object) -> str:
    """Text of a model as it is shown between quotes: what ends a line is seen as such."""
    return text_of(str(value).translate(_ENDS))
