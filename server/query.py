"""Query: what stands behind a path's question mark, checked as bodies are."""

import re
from collections.abc import Sequence

from starlette.requests import Request

from server.rules import wrong

_NUMBER = re.compile(r"[0-9]{1,12}")
_DECIMAL = re.compile(r"[0-9]{1,12}(\.[0-9]{1,12})?")
_TRUTHS = {"true": True, "1": True, "false": False, "0": False}


def flag_in(request: Request, name: str) -> bool:
    """A switch, which is off where it is left out."""
    given = request.query_params.get(name, "false").lower()
    if given not in _TRUTHS:
        raise wrong(name, "must be true or false")
    return _TRUTHS[given]


def number_in(request: Request, name: str, *, least: int, most: int | None = None, default: int) -> int:
    """A number within its range."""
    given = request.query_params.get(name)
    if given is None:
        return default
    number = int(given) if _NUMBER.fullmatch(given) else None
    if number is None or number < least or (most is not None and number > most):
        raise wrong(name, f"must be an integer of at least {least}" + ("" if most is None else f" and at most {most}"))
    return number


def seconds_in(request: Request, name: str, *, least: float, most: float, default: float) -> float:
    """A time within its range."""
    given = request.query_params.get(name)
    if given is None:
        return default
    seconds = float(given) if _DECIMAL.fullmatch(given) else None
    if seconds is None or not least <= seconds <= most:
        raise wrong(name, f"must be a number of seconds from {least:g} to {most:g}")
    return seconds


def choice_in(request: Request, name: str, choices: Sequence[str], *, default: str) -> str:
    """One of a few words."""
    given = request.query_params.get(name, default)
    if given not in choices:
        raise wrong(name, f"must be one of {', '.join(choices)}")
    return given
