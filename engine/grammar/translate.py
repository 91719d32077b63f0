"""Translate: a grammar, and those that are its parts, as the library takes them. Raises what is wrong with one."""

import json
import re
from collections.abc import Collection, Iterator, Mapping
from typing import assert_never

from llguidance import LLMatcher
from llguidance.gbnf_to_lark import gbnf_to_lark

from engine.grammar.bounds import MAX_FORESEEN, check_expression, check_lark, check_schema, special_tokens
from engine.grammar.patterns import literal_classes
from engine.grammar.rewording import reworded
from engine.grammar.schema import PLAIN, changed, demanding, subschemas
from engine.request import Grammar, Syntax

# Between two parts of JSON: a space, or a line feed and an indentation. Without a bound a model may write it for ever.
WHITESPACE = r"( |\r?\n[ \t]{0,32})?"
JSON_OPTIONS: dict[str, object] = {
    "whitespace_pattern": WHITESPACE,
    "item_separator": ",",
    "key_separator": ":",
    "coerce_one_of": True,  # its branches can't be told apart while writing; any of them is taken
    "lenient": False,  # what it does not know it refuses, and never leaves out
}
UNFORESEEN = '%llguidance {"no_forcing": true}\n'  # what must come next is not looked for, so nothing is too far away
MAX_PLAIN = 8192  # characters of a schema

# What a Lark grammar is made of where `%json` may stand: strings, expressions, comments, and itself.
_PARTS = re.compile(r'"(?:\\.|[^"\\])*"|/(?:\\.|[^/\\\n])+/|(?://|\#)[^\n]*|(?P<json>%json\b\s*)')

Ends = Mapping[int, str]  # the tokens that end an output, and how they are spelled


def translated(grammar: Grammar, ends: Ends) -> str:
    """A grammar with bounded whitespace in every schema."""
    named = [{"name": name, **_entry(part, ends)} for name, part in _all_parts(grammar)]
    return json.dumps({"grammars": [_entry(grammar, ends), *named]})


def _all_parts(grammar: Grammar) -> Iterator[tuple[str, Grammar]]:
    """Parts, and the parts of these; no two have the same name."""
    for name, part in grammar.parts:
        yield name, part
        yield from _all_parts(part)


def pieces_of(grammar: Grammar) -> Iterator[tuple[str, Grammar]]:
    """What stands in a grammar as a whole, parts by their names. Some faults of one show only where it begins."""
    yield from grammar.parts
    if grammar.syntax is Syntax.LARK:
        yield from (("", Grammar(Syntax.JSON_SCHEMA, json.dumps(each))) for each, _, _ in _schemas_in(grammar.source))


def is_plain(grammar: Grammar) -> bool:
    """Whether all faults of a piece show in the grammar that it stands in: it is small and refers to nothing."""
    if grammar.syntax is not Syntax.JSON_SCHEMA or len(grammar.source) > MAX_PLAIN:
        return False
    schema = json.loads(grammar.source)
    return isinstance(schema, dict) and all(part.keys() <= PLAIN for part in subschemas(schema))


def _entry(grammar: Grammar, ends: Ends) -> dict[str, object]:
    """One grammar of the library's list."""
    match grammar.syntax:
        case Syntax.JSON_SCHEMA:
            schema = _with_options(json.loads(grammar.source))
            repeats = check_schema(schema)
            return {"json_schema": schema} if repeats <= MAX_FORESEEN else _lark(_embedded(schema), repeats)
        case Syntax.REGEX:
            repeats = check_expression(grammar.source)
            [entry] = json.loads(LLMatcher.grammar_from_regex(grammar.source))["grammars"]
            return _lark(entry["lark_grammar"], repeats)
        case Syntax.LARK:
            return _written(grammar.source, ends)
        case Syntax.GBNF:
            return _written(gbnf_to_lark(grammar.source), ends)
    assert_never(grammar.syntax)


def _lark(text: str, repeats: int) -> dict[str, object]:
    return {"lark_grammar": text if repeats <= MAX_FORESEEN else UNFORESEEN + text}


def _written(text: str, ends: Ends) -> dict[str, object]:
    """A Lark grammar with our options in every schema that it embeds."""
    for token in special_tokens(text):
        if (end := _end_in(token, ends)) is not None:
            raise ValueError(f"{token} has {end}, which ends an answer: it ends where its grammar does, without")
    parts, last, repeats = [], 0, check_lark(text)
    for given, start, stop in _schemas_in(text):
        schema = _with_options(given)
        repeats = max(repeats, check_schema(schema))
        parts += [text[last:start], json.dumps(schema)]
        last = stop
    return _lark("".join([*parts, text[last:]]), repeats)


def _schemas_in(lark: str) -> Iterator[tuple[object, int, int]]:
    """The schemas that a Lark grammar embeds, and where their texts start and stop."""
    last = 0
    for part in _PARTS.finditer(lark):
        if part["json"] is not None and part.start() >= last:
            schema, last = json.JSONDecoder().raw_decode(lark, part.end())
            yield schema, part.end(), last


def _embedded(schema: Mapping[str, object]) -> str:
    return f"start: %json {json.dumps(schema)}"


def _with_options(schema: object) -> dict[str, object]:
    """A schema with our options in the place of its own."""
    if schema is True:
        schema = {}
    if not isinstance(schema, dict):
        raise ValueError("a schema is an object")  # noqa: TRY004  # the client's text is wrong, not our types
    return {**reworded(changed(demanding(schema), literal_classes)), "x-guidance": JSON_OPTIONS}


def _end_in(token: str, ends: Ends) -> str | None:
    """The end that a special token is, or that is among several."""
    named = token[1:-1]
    if not (named.startswith("[") and named.endswith("]")):
        return token if token in ends.values() else None
    return next((text for id, text in ends.items() if _holds(named[1:-1], id)), None)


def _holds(ids: str, id: int) -> bool:
    """Whether a list of ids and ranges holds an id: `1,5-7`, `^3` or `*`."""
    if ids == "*":
        return True
    return _listed(ids.removeprefix("^").split(","), id) is not ids.startswith("^")


def _listed(ranges: Collection[str], id: int) -> bool:
    for each in ranges:
        first, _, last = each.partition("-")
        if first.isdecimal() and (last or first).isdecimal() and int(first) <= id <= int(last or first):
            return True
    return False
