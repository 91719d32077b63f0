"""Bounds: how much a small text may ask for. What asks for more could be begun, but not followed to its end."""

import re
from collections.abc import Iterable, Iterator, Mapping
from decimal import Decimal

from engine.grammar.schema import subschemas

MAX_REPEATS = 50_000  # of one thing in a row: the library follows an expression through so many states
MAX_BRANCHES = 2_000  # of one rule, or of values with parts: so many ways are followed at once
MAX_INTEGER = 2**63 - 1  # the library keeps numbers as doubles, and bounds of integers in 64 bits
MAX_FORESEEN = 500  # repeats: the library looks for what must come next to its end, however far that is

_UPPER = ("maximum", "exclusiveMaximum")
_NUMBERS = ("minimum", "exclusiveMinimum", *_UPPER, "const", "enum")
_LEAST = ("minItems", "minLength", "minProperties")
_BRACES = r"\{\s*(?P<times>\d*)\s*(?:,[^}]*)?\}"
_EXPRESSION = re.compile(
    rf"(?P<open>\()|(?P<close>\))|{_BRACES}|(?P<idle>[?*+])|(?P<part>\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|.)", re.DOTALL
)
_LARK = re.compile(
    r'(?P<text>"(?:\\.|[^"\\])*"i?)|(?P<expression>/(?:\\.|[^/\\\n])+/)|(?P<comment>(?://|\#)[^\n]*)|(?P<token><[^<>\s]+>)'
    r"|(?P<rule>^[ \t]*[?!]?(?P<name>[A-Za-z_][\w-]*)[^:\n\"/|]*:)"
    rf"|{_BRACES}|~\s*(?P<tilde>\d+)(?:\s*\.\.\s*\d+)?|(?P<branch>\|)|(?P<open>[(\[])|(?P<close>[)\]])"
    r"|(?P<idle>[?*+])|(?P<part>[\w@%-]+)",
    re.MULTILINE,
)
_Part = tuple[str, int]  # what it is, and how often it is repeated where it is a number


def check_expression(text: str) -> int:
    """How often an expression has something repeated in a row, at the least. Raises where that is too often."""
    return _checked(_most_repeated(_expression_parts(text)))


def check_lark(text: str) -> int:
    """The same of a Lark grammar, as if each of its rules were repeated by all others. Raises for branches too."""
    product = 1
    for name, rule in _rules(text):
        product *= _checked(_most_repeated(rule))
        branches = 1 + sum(kind == "branch" for kind, _ in rule)
        if branches > MAX_BRANCHES and not name.isupper():  # a terminal is one expression
            raise ValueError(f"a rule has {branches} branches, at most {MAX_BRANCHES} are taken")
    return product


def check_schema(schema: Mapping[str, object]) -> int:
    """The same of the patterns of a schema. Raises for its numbers and values too."""
    most = 1
    for part in subschemas(schema):
        _check_divisor(part.get("multipleOf"))
        _check_numbers(part)
        _check_values(part.get("enum"))
        _check_least(part)
        _check_properties(part)
        most = max(most, *(check_expression(pattern) for pattern in _patterns(part)), 1)
    return most


def special_tokens(lark: str) -> Iterator[str]:
    """The special tokens that a Lark grammar names, as it does: `<|name|>`, `<[1,5-7]>`, `<[^3]>`."""
    return (match["token"] for match in _LARK.finditer(lark) if match["token"])


def _checked(repeats: int) -> int:
    if repeats > MAX_REPEATS:
        raise ValueError(f"it has something repeated {repeats} times, at most {MAX_REPEATS} are taken")
    return repeats


def _check_divisor(value: object) -> None:
    """A number that others are multiples of takes as many states as it is large, in units of its last digit."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        digits = int("".join(map(str, Decimal(str(value)).as_tuple().digits)))
        if digits > MAX_REPEATS:
            raise ValueError(f"multipleOf is {value}, its digits may be at most {MAX_REPEATS}")


def _check_numbers(schema: Mapping[str, object]) -> None:
    """Numbers that are not kept as they are would be others in the answer. An upper bound may be lower than asked."""
    for key in _NUMBERS:
        for number in _numbers_in(schema.get(key)):
            if not _is_kept(number) and not (key in _UPPER and number > MAX_INTEGER):
                raise ValueError(f"{key} has {number}, which is no double-precision number below 2^63")


def _numbers_in(value: object) -> Iterator[int | float]:
    """The numbers in a value."""
    match value:
        case bool():
            pass
        case int() | float():
            yield value
        case list():
            yield from (number for each in value for number in _numbers_in(each))
        case dict():
            yield from (number for each in value.values() for number in _numbers_in(each))


def _is_kept(number: int | float) -> bool:
    if number == MAX_INTEGER:  # what is a little larger as a double ends there again
        return True
    return abs(number) < MAX_INTEGER and float(number) == number


def _check_values(values: object) -> None:
    if (
        isinstance(values, list)
        and len(values) > MAX_BRANCHES
        and any(isinstance(each, dict | list) for each in values)
    ):
        raise ValueError(f"an enum has {len(values)} values, at most {MAX_BRANCHES} are taken where some have parts")


def _check_least(schema: Mapping[str, object]) -> None:
    for key in _LEAST:
        if (least := _number(schema.get(key))) > MAX_REPEATS:
            raise ValueError(f"{key} is {least}, at most {MAX_REPEATS} is taken")


def _check_properties(schema: Mapping[str, object]) -> None:
    """Keys that no `properties` name may come again, and then are one property: only one of them is sure."""
    required = schema.get("required")
    sure = 1 + (len(set(required)) if isinstance(required, list) else 0)
    closed = schema.get("additionalProperties") is False and not schema.get("patternProperties")
    if not closed and (least := _number(schema.get("minProperties"))) > sure:
        raise ValueError(f"minProperties is {least}, at most {sure} is taken, one more than `required` has")


def _number(value: object) -> int | float:
    return value if isinstance(value, int | float) else 0


def _patterns(schema: Mapping[str, object]) -> Iterator[str]:
    if isinstance(pattern := schema.get("pattern"), str):
        yield pattern
    if isinstance(named := schema.get("patternProperties"), dict):
        yield from named


def _expression_parts(text: str) -> Iterator[_Part]:
    return (_part(match) for match in _EXPRESSION.finditer(text))


def _rules(lark: str) -> Iterator[tuple[str, list[_Part]]]:
    """Each rule's name and its parts."""
    name, rule = "", list[_Part]()
    for match in _LARK.finditer(lark):
        if match["rule"]:
            yield name, rule
            name, rule = match["name"], []
        elif match["expression"]:
            rule.append(("part", check_expression(match["expression"][1:-1])))
        elif match["tilde"]:
            rule.append(("times", int(match["tilde"])))
        elif not match["comment"]:
            rule.append(_part(match))
    yield name, rule


def _part(match: re.Match[str]) -> _Part:
    kind = match.lastgroup
    assert kind is not None, "every part has a name"
    return kind, int(match["times"] or 0) if kind == "times" else 1


def _most_repeated(parts: Iterable[_Part]) -> int:
    """The largest product of repeats around one part. Those that need not be count once."""
    groups, last = [1], 1
    for kind, count in parts:
        match kind:
            case "open":
                groups.append(1)
                continue
            case "close" if len(groups) > 1:
                last = groups.pop()
            case "times":
                last *= max(1, count)
            case "idle":
                pass
            case _:
                last = count
        groups[-1] = max(groups[-1], last)
    return max(groups)
