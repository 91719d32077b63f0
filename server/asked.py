"""Asked: a grammar and the field that asked for it, made from what a client wrote."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

import orjson

from engine.request import Grammar, Syntax
from server.body import is_deeper
from server.rules import wrong

MAX_SCHEMA_DEPTH = 64

_GBNF = re.compile(r"^\s*root\s*::=", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Asked:
    """A grammar, and the field that asked for it; `shown` are special tokens that it spells, which are text then.

    `places` has the field that a part of the grammar was made from, by the part's name.
    """

    grammar: Grammar
    param: str
    shown: frozenset[int] = frozenset()
    places: Mapping[str, str] = field(default_factory=dict)


def json_of(text: str, param: str) -> object:
    """JSON that comes as text is looked at as a body is."""
    if is_deeper(text.encode("utf-8", "replace"), MAX_SCHEMA_DEPTH):
        raise wrong(param, f"is nested more than {MAX_SCHEMA_DEPTH} levels deep")
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        raise wrong(param, "is not valid JSON") from None


def schema_asked(given: str | dict[str, object], param: str) -> Asked:
    """A schema, or its text."""
    if isinstance(given, dict):
        return Asked(Grammar(Syntax.JSON_SCHEMA, orjson.dumps(given).decode()), param)
    schema = json_of(given, param)
    if not isinstance(schema, dict):
        raise wrong(param, "must be a JSON schema, which is an object")
    return schema_asked(schema, param)


def written_asked(text: str, param: str) -> Asked:
    """A grammar in one of two languages, which are told apart by GBNF's first rule."""
    return Asked(Grammar(Syntax.GBNF if _GBNF.search(text) else Syntax.LARK, text), param)
