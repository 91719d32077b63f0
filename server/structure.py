"""Structure: what an answer has to match, from a body's fields to a grammar that the engine has ready."""

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import orjson

from engine.request import Grammar, Syntax
from server.body import is_deeper
from server.door import EngineDoor
from server.errors import blaming, unsupported
from server.rules import wrong
from server.wire.sampling import ResponseFormat, StructuredOutputs, StructureFields
from server.words import Names, name_of

MAX_SCHEMA_DEPTH = 64

_GBNF = re.compile(r"^\s*root\s*::=", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Asked:
    """A grammar, and the field that asked for it."""

    grammar: Grammar
    param: str


def grammar_of(body: StructureFields) -> Asked | None:
    """The one grammar that a body asks for, if any."""
    asked = list(_all_asked(body))
    if len(asked) > 1:
        raise wrong(asked[1].param, f"goes against `{asked[0].param}`: an answer can have one structure")
    return asked[0] if asked else None


async def settled(engine: EngineDoor, asked: Asked | None, names: Names = ()) -> Grammar | None:
    """Have the engine make the grammar ready; what it refuses is the client's 400 that names the field.

    `names` are those of a body that was translated: what fails later is named by them as well.
    """
    if asked is None:
        return None
    with blaming(asked.param):
        await engine.prepare(asked.grammar)
    return replace(asked.grammar, name=name_of(asked.param, names))


def _all_asked(body: StructureFields) -> Iterator[Asked]:
    if body.response_format is not None:
        yield from _format(body.response_format)
    if body.structured_outputs is not None:
        yield _structured(body.structured_outputs)
    if body.guided_json is not None:
        yield _schema(body.guided_json, "guided_json")
    if body.guided_regex is not None:
        yield Asked(Grammar(Syntax.REGEX, body.guided_regex), "guided_regex")
    if body.guided_choice is not None:
        yield _choice(body.guided_choice, "guided_choice")
    if body.guided_grammar is not None:
        yield _written(body.guided_grammar, "guided_grammar")


def _format(given: ResponseFormat) -> Iterator[Asked]:
    if given.type == "json_object":
        yield _any_object("response_format")
    elif given.json_schema is not None and given.type == "json_schema":
        yield _schema(given.json_schema.schema_, "response_format.json_schema.schema")


def _structured(given: StructuredOutputs) -> Asked:
    """The one kind that vLLM's field names."""
    field = "structured_outputs"
    if given.structural_tag is not None:
        raise unsupported(f"{field}.structural_tag", "is not available here")
    asked = []
    if given.json_ is not None:
        asked.append(_schema(given.json_, f"{field}.json"))
    if given.regex is not None:
        asked.append(Asked(Grammar(Syntax.REGEX, given.regex), f"{field}.regex"))
    if given.choice is not None:
        asked.append(_choice(given.choice, f"{field}.choice"))
    if given.grammar is not None:
        asked.append(_written(given.grammar, f"{field}.grammar"))
    if given.json_object:
        asked.append(_any_object(f"{field}.json_object"))
    if len(asked) != 1:
        raise wrong(field, f"needs one of json, regex, choice, grammar and json_object, and has {len(asked)}")
    return asked[0]


def _any_object(param: str) -> Asked:
    return Asked(Grammar(Syntax.JSON_SCHEMA, '{"type":"object"}'), param)


def _schema(given: str | dict[str, object], param: str) -> Asked:
    """A schema; one that comes as text is looked at as a body is."""
    if isinstance(given, dict):
        return Asked(Grammar(Syntax.JSON_SCHEMA, orjson.dumps(given).decode()), param)
    if is_deeper(given.encode("utf-8", "replace"), MAX_SCHEMA_DEPTH):
        raise wrong(param, f"is nested more than {MAX_SCHEMA_DEPTH} levels deep")
    try:
        schema = orjson.loads(given)
    except orjson.JSONDecodeError:
        raise wrong(param, "is not valid JSON") from None
    if not isinstance(schema, dict):
        raise wrong(param, "must be a JSON schema, which is an object")
    return _schema(schema, param)


def _choice(texts: Sequence[str], param: str) -> Asked:
    """One of several texts, as they are: one terminal, since a rule can have only so many branches."""
    terminal = " | ".join(json.dumps(text, ensure_ascii=False) for text in texts)
    return Asked(Grammar(Syntax.LARK, f"start: TM_CHOICE\nTM_CHOICE: {terminal}"), param)


def _written(text: str, param: str) -> Asked:
    """A grammar in one of two languages, which are told apart by GBNF's first rule."""
    return Asked(Grammar(Syntax.GBNF if _GBNF.search(text) else Syntax.LARK, text), param)
