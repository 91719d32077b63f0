import json
import re
from collections.abc import Mapping

import pytest

from engine.errors import GrammarRefused
from engine.request import Grammar, Syntax
from server.asked import Asked
from server.errors import ApiError
from server.structure import grammar_of, settled
from server.wire.sampling import StructureFields
from tests.fakes import FakeEngine

pytestmark = pytest.mark.anyio

SCHEMA = {"type": "object", "properties": {"b": {"type": "integer"}, "a": {"const": "ď"}}}
TEXT = '{"type":"object","properties":{"b":{"type":"integer"},"a":{"const":"ď"}}}'
ANY_OBJECT = '{"type":"object"}'
GBNF = 'root ::= "a" | "b"\n'
LARK = 'start: "root ::= "'


def asked_by(fields: Mapping[str, object]) -> Asked | None:
    return grammar_of(StructureFields.model_validate(fields), {})


@pytest.mark.parametrize(
    ("fields", "syntax", "source", "param"),
    [
        ({"response_format": {"type": "json_object"}}, Syntax.JSON_SCHEMA, ANY_OBJECT, "response_format"),
        (
            {"response_format": {"type": "json_object", "schema": SCHEMA}},
            Syntax.JSON_SCHEMA,
            TEXT,
            "response_format.schema",
        ),
        (
            {"response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": SCHEMA}}},
            Syntax.JSON_SCHEMA,
            TEXT,
            "response_format.json_schema.schema",
        ),
        ({"guided_json": SCHEMA}, Syntax.JSON_SCHEMA, TEXT, "guided_json"),
        ({"guided_json": json.dumps(SCHEMA)}, Syntax.JSON_SCHEMA, TEXT, "guided_json"),
        ({"guided_json": {}}, Syntax.JSON_SCHEMA, "{}", "guided_json"),
        ({"guided_regex": "a+"}, Syntax.REGEX, "a+", "guided_regex"),
        (
            {"guided_choice": ["a", 'ď"\n']},
            Syntax.LARK,
            'start: TM_CHOICE\nTM_CHOICE: "a" | "ď\\"\\n"',
            "guided_choice",
        ),
        ({"guided_grammar": GBNF}, Syntax.GBNF, GBNF, "guided_grammar"),
        ({"guided_grammar": LARK}, Syntax.LARK, LARK, "guided_grammar"),
        ({"structured_outputs": {"json": SCHEMA}}, Syntax.JSON_SCHEMA, TEXT, "structured_outputs.json"),
        ({"structured_outputs": {"regex": "a+"}}, Syntax.REGEX, "a+", "structured_outputs.regex"),
        (
            {"structured_outputs": {"choice": ["a"]}},
            Syntax.LARK,
            'start: TM_CHOICE\nTM_CHOICE: "a"',
            "structured_outputs.choice",
        ),
        ({"structured_outputs": {"grammar": GBNF}}, Syntax.GBNF, GBNF, "structured_outputs.grammar"),
        (
            {"structured_outputs": {"json_object": True}},
            Syntax.JSON_SCHEMA,
            ANY_OBJECT,
            "structured_outputs.json_object",
        ),
    ],
)
def test_each_way_to_ask_for_a_structure_is_a_grammar(
    fields: Mapping[str, object], syntax: Syntax, source: str, param: str
) -> None:
    assert asked_by(fields) == Asked(Grammar(syntax, source), param)


def test_text_asks_for_no_structure() -> None:
    assert asked_by({}) is None
    assert asked_by({"response_format": {"type": "text"}}) is None
    assert asked_by({"response_format": {"type": "text", "json_schema": {"schema": {}}}, "guided_json": None}) is None


async def test_the_engine_makes_a_grammar_ready_before_it_is_asked_for_an_answer() -> None:
    engine, grammar = FakeEngine(), Grammar(Syntax.REGEX, "a+")
    names = ((re.compile("guided_(.*)"), r"text.\1"),)

    settled_one = await settled(engine, Asked(grammar, "guided_regex"))
    renamed = await settled(engine, Asked(grammar, "guided_regex"), names)

    assert settled_one == renamed == grammar
    assert settled_one is not None
    assert renamed is not None
    assert (settled_one.name, renamed.name) == ("guided_regex", "text.regex")
    assert await settled(engine, None) is None
    assert engine.grammars == [grammar, grammar]


async def test_a_part_that_the_engine_refuses_names_the_field_that_it_was_made_from() -> None:
    engine = FakeEngine(grammar_refusal=GrammarRefused(syntax="JSON schema", reason="it is wrong", part="p"))
    grammar, places = Grammar(Syntax.REGEX, "a+"), {"p": "tools[3].function.parameters"}

    with pytest.raises(ApiError) as known:
        await settled(engine, Asked(grammar, "tools", places=places))
    with pytest.raises(ApiError) as unknown:
        await settled(engine, Asked(grammar, "guided_grammar"))

    assert known.value.body["param"] == "tools[3].function.parameters"
    assert unknown.value.body["param"] == "guided_grammar"


async def test_what_the_engine_refuses_names_the_field_that_asked_for_it() -> None:
    engine = FakeEngine(grammar_refusal=GrammarRefused(syntax="regular expression", reason="it is too large"))

    with pytest.raises(ApiError) as refused:
        await settled(engine, Asked(Grammar(Syntax.REGEX, "a+"), "guided_regex"))

    assert refused.value.status == 400
    assert refused.value.body["param"] == "guided_regex"
    assert "too large" in refused.value.body["message"]
