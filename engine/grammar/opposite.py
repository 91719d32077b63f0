"""Opposite: a schema for exactly what another schema is not for, where that can be said."""

from collections.abc import Callable, Iterable, Mapping
from itertools import pairwise

from engine.grammar.allowance import Allowance
from engine.grammar.schema import Schema, meaning

MAX_CHARACTERS = 100  # of a text that is excluded: its pattern is nested so deep
_TYPES = ("null", "boolean", "number", "string", "array", "object")

Said = Schema | bool  # True fits everything, False nothing


class Opposites:
    """Those of the parts of one schema, which may refer to others."""

    def __init__(self, root: Mapping[str, object], allowance: Allowance) -> None:
        self._root = root
        self._allowance = allowance
        self._ways: Mapping[str, Callable[[object], Said | None]] = {
            "type": _not_of_type,
            "const": lambda value: self._not_among([value]),
            "enum": self._not_among,
            "required": _without_one,
            "properties": self._with_another,
            "minLength": _counted("string", "maxLength", -1),
            "maxLength": _counted("string", "minLength", 1),
            "minItems": _counted("array", "maxItems", -1),
            "maxItems": _counted("array", "minItems", 1),
            "minimum": _bounded("exclusiveMaximum"),
            "maximum": _bounded("exclusiveMinimum"),
            "exclusiveMinimum": _bounded("maximum"),
            "exclusiveMaximum": _bounded("minimum"),
            "anyOf": lambda parts: every(map(self.of, _list(parts))),
            "allOf": lambda parts: some(map(self.of, _list(parts))),
            "not": lambda part: part if isinstance(part, dict | bool) else None,
        }

    def of(self, schema: object) -> Said | None:
        """None where it can't be said, as that of a pattern. Raises ValueError where the allowance is used up."""
        self._allowance.take(1)
        match meaning(schema, self._root):
            case bool(fits):
                return not fits
            case dict(meant):
                return some(self._ways[key](value) if key in self._ways else None for key, value in meant.items())
            case _:
                return None

    def _with_another(self, named: object) -> Said | None:
        if not isinstance(named, dict):
            return None
        return some(_with_key(key, self.of(part)) for key, part in named.items())

    def _not_among(self, values: object) -> Said | None:
        """All other texts and numbers, the other truth, and what is of another type."""
        if not isinstance(values, list) or any(isinstance(value, dict | list) for value in values):
            return None
        texts = [value for value in dict.fromkeys(values) if isinstance(value, str)]
        truths = {value for value in values if isinstance(value, bool)}
        numbers = sorted({value for value in values if isinstance(value, int | float) and not isinstance(value, bool)})
        if any(len(text) > MAX_CHARACTERS for text in texts):
            return None
        self._allowance.take(sum(map(len, texts)) + len(numbers))
        kinds = {"string": texts, "boolean": truths, "number": numbers, "null": None in values}
        return some(
            [
                _of_others(kind for kind, named in kinds.items() if named),
                {"type": "string", "pattern": f"^{other_than(texts)}$"} if texts else False,
                {"enum": [not truth for truth in truths]} if len(truths) == 1 else False,
                *_between(numbers),
            ]
        )


def some(ways: Iterable[Said | None]) -> Said | None:
    """What fits one of them; None where one of them can't be said."""
    return _joined("anyOf", list(ways), idle=False)


def every(ways: Iterable[Said | None]) -> Said | None:
    """What fits all of them; None where one of them can't be said."""
    return _joined("allOf", list(ways), idle=True)


def other_than(texts: Iterable[str]) -> str:
    """A regular expression for every text but these."""
    rests: dict[str, list[str]] = {}
    for text in texts:
        rests.setdefault(text[:1], []).append(text[1:])
    firsts = {first: f"\\x{ord(first):02x}" if first.isascii() else first for first in rests if first}
    ways = [f"{escaped}{other_than(rests[first])}" for first, escaped in firsts.items()]
    ways.append(rf"[^{''.join(firsts.values())}][\s\S]*" if firsts else r"[\s\S]+")
    return f"(?:{'|'.join(ways)}){'' if '' in rests else '?'}"


def _joined(keyword: str, ways: list[Said | None], *, idle: bool) -> Said | None:
    """Those that are not idle, together: one that is the other constant decides."""
    telling = [way for way in ways if way is not idle]
    if None in telling:
        return None
    if not telling or (not idle) in [way for way in telling if isinstance(way, bool)]:
        return idle if not telling else not idle
    return telling[0] if len(telling) == 1 else {keyword: telling}


def _list(parts: object) -> list[object]:
    return parts if isinstance(parts, list) else [None]  # of which nothing can be said


def _not_of_type(value: object) -> Said | None:
    """Numbers that are no integers can't be named."""
    kinds = [value] if isinstance(value, str) else value
    return _of_others(kinds) if isinstance(kinds, list) and set(_TYPES).issuperset(kinds) else None


def _of_others(kinds: Iterable[object]) -> Said:
    named = set(kinds)
    others = [kind for kind in _TYPES if kind not in named]
    return {"type": others} if others else False


def _between(numbers: list[int | float]) -> list[Said | None]:
    """What is below the first, between two neighbours, and above the last."""
    if not numbers:
        return []
    between = [{"exclusiveMinimum": low, "exclusiveMaximum": high} for low, high in pairwise(numbers)]
    ends = [{"exclusiveMaximum": numbers[0]}, {"exclusiveMinimum": numbers[-1]}]
    return [{"type": "number", **bounds} for bounds in (*between, *ends)]


def _without_one(keys: object) -> Said | None:
    if not isinstance(keys, list) or not all(isinstance(key, str) for key in keys):
        return None
    return some({"type": "object", "properties": {key: False}} for key in keys)


def _with_key(key: str, said: Said | None) -> Said | None:
    return {"type": "object", "properties": {key: said}, "required": [key]} if said else said


def _counted(kind: str, key: str, step: int) -> Callable[[object], Said | None]:
    """The opposite of a count's bound: the bound on its other side."""

    def way(value: object) -> Said | None:
        if not isinstance(value, int) or isinstance(value, bool):
            return None
        return {"type": kind, key: value + step} if value + step >= 0 else False

    return way


def _bounded(key: str) -> Callable[[object], Said | None]:
    """The same of numbers. Draft 4 says with true or false whether a bound is excluded."""

    def way(value: object) -> Said | None:
        is_bound = isinstance(value, int | float) and not isinstance(value, bool)
        return {"type": "number", key: value} if is_bound else None

    return way
