"""Structure: what an answer has to match, from a body's fields to a grammar that the engine has ready."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from engine.errors import GrammarRefused
from engine.request import Grammar, Syntax
from server.asked import Asked, json_of, schema_asked, written_asked
from server.body import validated
from server.door import EngineDoor
from server.errors import ApiError, blaming
from server.rules import wrong
from server.tags import format_asked, tags_asked
from server.wire.sampling import ResponseFormat, StructuralTag, StructuredOutputs, StructureFields, TagFields
from server.words import Names, name_of


def grammar_of(body: StructureFields, special: Mapping[str, int]) -> Asked | None:
    """The one grammar that a body asks for, if any. `special` has the ids of special tokens by what they spell."""
    asked = list(_all_asked(body, special))
    if len(asked) > 1:
        raise wrong(asked[1].param, f"goes against `{asked[0].param}`: an answer can have one structure")
    return asked[0] if asked else None


async def settled(engine: EngineDoor, asked: Asked | None, names: Names = ()) -> Grammar | None:
    """Have the engine make the grammar ready; what it refuses is the client's 400 that names the field at fault.

    `names` are those of a body that was translated: what fails later is named by them as well.
    """
    if asked is None:
        return None
    with blaming(asked.param):
        try:
            await engine.prepare(asked.grammar)
        except GrammarRefused as refusal:
            raise wrong(asked.places.get(refusal.part, asked.param), str(refusal)) from refusal
    return replace(asked.grammar, name=name_of(asked.param, names))


def _all_asked(body: StructureFields, special: Mapping[str, int]) -> Iterator[Asked]:
    if body.response_format is not None:
        yield from _format(body.response_format, special)
    if body.structured_outputs is not None:
        yield _structured(body.structured_outputs, special)
    if body.guided_json is not None:
        yield schema_asked(body.guided_json, "guided_json")
    if body.guided_regex is not None:
        yield Asked(Grammar(Syntax.REGEX, body.guided_regex), "guided_regex")
    if body.guided_choice is not None:
        yield _choice(body.guided_choice, "guided_choice")
    if body.guided_grammar is not None:
        yield written_asked(body.guided_grammar, "guided_grammar")


def _format(given: ResponseFormat, special: Mapping[str, int]) -> Iterator[Asked]:
    if given.type == "json_object" and given.schema_ is not None:
        yield schema_asked(given.schema_, "response_format.schema")
    elif given.type == "json_object":
        yield _any_object("response_format")
    elif given.json_schema is not None and given.type == "json_schema":
        yield schema_asked(given.json_schema.schema_, "response_format.json_schema.schema")
    elif given.type == "structural_tag":
        yield _tags(given, "response_format", special)


def _structured(given: StructuredOutputs, special: Mapping[str, int]) -> Asked:
    """The one kind that vLLM's field names."""
    field = "structured_outputs"
    asked = []
    if given.structural_tag is not None:
        asked.append(
            _tags(_read_tag(given.structural_tag, f"{field}.structural_tag"), f"{field}.structural_tag", special)
        )
    if given.json_ is not None:
        asked.append(schema_asked(given.json_, f"{field}.json"))
    if given.regex is not None:
        asked.append(Asked(Grammar(Syntax.REGEX, given.regex), f"{field}.regex"))
    if given.choice is not None:
        asked.append(_choice(given.choice, f"{field}.choice"))
    if given.grammar is not None:
        asked.append(written_asked(given.grammar, f"{field}.grammar"))
    if given.json_object:
        asked.append(_any_object(f"{field}.json_object"))
    if len(asked) != 1:
        raise wrong(
            field, f"needs one of json, regex, choice, grammar, json_object and structural_tag, and has {len(asked)}"
        )
    return asked[0]


def _read_tag(given: str | StructuralTag, param: str) -> StructuralTag:
    """A structural tag, which vLLM's clients send as text."""
    if isinstance(given, StructuralTag):
        return given
    fields = json_of(given, param)
    if not isinstance(fields, dict):
        raise wrong(param, "must be a structural tag, which is an object")
    try:
        return validated(fields, StructuralTag)
    except ApiError as error:
        within = error.body["param"]
        raise error.renamed(f"{param}.{within}" if within else param) from None


def _tags(given: TagFields, param: str, special: Mapping[str, int]) -> Asked:
    if given.structures is not None and given.triggers is not None:
        return tags_asked(given.structures, given.triggers, param, special)
    assert given.format is not None, "it is said in one of two ways"
    return format_asked(given.format, param, special)


def _any_object(param: str) -> Asked:
    return Asked(Grammar(Syntax.JSON_SCHEMA, '{"type":"object"}'), param)


def _choice(texts: Sequence[str], param: str) -> Asked:
    """One of several texts, as they are: one terminal, since a rule can have only so many branches."""
    terminal = " | ".join(json.dumps(text, ensure_ascii=False) for text in texts)
    return Asked(Grammar(Syntax.LARK, f"start: TM_CHOICE\nTM_CHOICE: {terminal}"), param)
