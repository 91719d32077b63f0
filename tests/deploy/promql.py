"""What a query of Prometheus names: metrics with their matchers, and the labels that it groups by."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[a-zA-Z_:][\w:]*|\d[\w.+-]*|[=!<>]=|=~|!~|\S')
LISTS = {"by", "without", "on", "ignoring", "group_left", "group_right"}  # each before a list of labels
OPERATORS = {"and", "or", "unless", "bool", "offset"}

Labels = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Selector:
    """One metric of a query, and what it asks of labels: (label, operator, value)."""

    name: str
    matchers: tuple[tuple[str, str, str], ...] = ()

    def __str__(self) -> str:
        return f"{self.name}{{{', '.join(f'{label}{operator}{value!r}' for label, operator, value in self.matchers)}}}"

    def takes(self, name: str, labels: Labels) -> bool:
        """Whether a series is among those that it selects."""
        return name == self.name and all(_fits(labels.get(label, ""), *rest) for label, *rest in self.matchers)

    def apart(self) -> tuple["Selector", ...]:
        """One selector for each alternative of its matchers, such as a and b of a|b: each should find something."""
        parts: list[tuple[tuple[str, str, str], ...]] = [()]
        for label, operator, value in self.matchers:
            values = value.split("|") if operator == "=~" else [value]
            parts = [(*part, (label, operator, one)) for part in parts for one in values]
        return tuple(Selector(self.name, part) for part in parts)


@dataclass(frozen=True, slots=True)
class Names:
    """All that a query names."""

    selectors: tuple[Selector, ...]
    grouping: frozenset[str]


def names_in(expr: str) -> Names:
    """What `expr` names. It must be a valid query: nothing is checked but names."""
    tokens: list[str] = TOKEN.findall(re.sub(r"\[[^]]*\]", "", expr))
    selectors: list[Selector] = []
    grouping: set[str] = set()
    at = 0
    while at < len(tokens):
        token, following = tokens[at], tokens[at + 1] if at + 1 < len(tokens) else ""
        at += 1
        if token in LISTS:
            end = tokens.index(")", at)
            grouping |= {label for label in tokens[at + 1 : end] if label != ","}
            at = end + 1
        elif re.match(r"[a-zA-Z_:]", token) and token not in OPERATORS and following not in {"(", "by", "without"}:
            end = tokens.index("}", at) + 1 if following == "{" else at
            selectors.append(Selector(token, _matchers(tokens[at:end])))
            at = end
    return Names(tuple(selectors), frozenset(grouping))


def _matchers(tokens: list[str]) -> tuple[tuple[str, str, str], ...]:
    """From the tokens between braces, and those."""
    inner = [token for token in tokens if token not in {"{", "}", ","}]
    return tuple((inner[at], inner[at + 1], inner[at + 2][1:-1]) for at in range(0, len(inner), 3))


def _fits(found: str, operator: str, value: str) -> bool:
    match operator:
        case "=":
            return found == value
        case "!=":
            return found != value
        case "=~":
            return re.fullmatch(value, found) is not None
    assert operator == "!~"
    return re.fullmatch(value, found) is None
