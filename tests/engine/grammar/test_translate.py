import json

import pytest

from engine.grammar.translate import MAX_PLAIN, UNFORESEEN, Ends, is_plain, pieces_of, translated
from engine.request import Grammar, Syntax

ENDS: Ends = {2: "<|end|>", 7: "<eot>"}


def entries(grammar: Grammar) -> list[dict[str, object]]:
    listed: list[dict[str, object]] = json.loads(translated(grammar, ENDS))["grammars"]
    return listed


def lark_of(grammar: Grammar) -> str:
    return str(entries(grammar)[0]["lark_grammar"])


def test_a_schema_s_own_options_do_not_count() -> None:
    text = translated(Grammar(Syntax.JSON_SCHEMA, '{"x-guidance": {"whitespace_flexible": true, "lenient": true}}'), {})

    assert '"lenient": false' in text


@pytest.mark.parametrize(
    ("syntax", "few", "many"),
    [
        (Syntax.REGEX, "a{400}", "(a{40}){40}"),
        (Syntax.LARK, 'start: "a"{400}', 'start: a{40}\na: "a"{40}'),
        (Syntax.LARK, 'start: %json {"pattern": "a{400}"}', 'start: %json {"pattern": "a{600}"}'),
        (Syntax.GBNF, 'root ::= "a"{400}', 'root ::= "a"{600}'),
    ],
)
def test_what_must_come_next_is_not_looked_for_where_it_may_be_far_away(syntax: Syntax, few: str, many: str) -> None:
    assert not lark_of(Grammar(syntax, few)).startswith(UNFORESEEN)
    assert lark_of(Grammar(syntax, many)).startswith(UNFORESEEN)


def test_nor_is_it_in_a_schema_with_such_a_pattern() -> None:
    [few] = entries(Grammar(Syntax.JSON_SCHEMA, '{"pattern": "a{400}"}'))
    [many] = entries(Grammar(Syntax.JSON_SCHEMA, '{"pattern": "a{600}"}'))

    assert "json_schema" in few
    assert str(many["lark_grammar"]).startswith(f"{UNFORESEEN}start: %json {{")


def test_parts_follow_by_their_names() -> None:
    whole = Grammar(
        Syntax.LARK, "start: @a @b", (("a", Grammar(Syntax.REGEX, "x/y")), ("b", Grammar(Syntax.GBNF, 'root ::= "z"')))
    )

    first, a, b = entries(whole)

    assert first["lark_grammar"] == "start: @a @b"
    assert (a["name"], a["lark_grammar"]) == ("a", r"start: /x\/y/")
    assert b["name"] == "b"


def test_pieces_are_parts_and_embedded_schemas() -> None:
    part = Grammar(Syntax.REGEX, "x")
    whole = Grammar(Syntax.LARK, 'start: @a "%json {" %json {"const": "%json 1"} | %json true', (("a", part),))

    assert list(pieces_of(whole)) == [
        ("a", part),
        ("", Grammar(Syntax.JSON_SCHEMA, '{"const": "%json 1"}')),
        ("", Grammar(Syntax.JSON_SCHEMA, "true")),
    ]
    assert list(pieces_of(Grammar(Syntax.REGEX, "%json {}"))) == []


@pytest.mark.parametrize(
    ("source", "plain"),
    [
        ('{"type": "object", "properties": {"a": {"enum": [1, {"pattern": 5}]}}, "required": ["a"]}', True),
        ('{"anyOf": [{"items": {"type": "integer", "minimum": 0}}, {"const": "x"}], "description": "y"}', True),
        ("{}", True),
        ('{"properties": {"a": {"$ref": "#"}}}', False),
        ('{"items": {"pattern": "a"}}', False),
        ('{"type": "string", "maxLength": 5}', False),
        (json.dumps({"enum": ["x" * MAX_PLAIN]}), False),
        ("true", False),
    ],
)
def test_a_schema_is_plain_that_refers_to_nothing_and_is_small(source: str, plain: bool) -> None:
    assert is_plain(Grammar(Syntax.JSON_SCHEMA, source)) is plain
    assert not is_plain(Grammar(Syntax.LARK, source))


@pytest.mark.parametrize(
    ("token", "end"),
    [
        ("<|end|>", "<|end|>"),
        ("<[2]>", "<|end|>"),
        ("<[1,3-9]>", "<eot>"),
        ("<[^3,4-6]>", "<|end|>"),
        ("<[^2]>", "<eot>"),
        ("<[*]>", "<|end|>"),
    ],
)
def test_a_token_that_ends_an_answer_can_t_be_within_one(token: str, end: str) -> None:
    with pytest.raises(ValueError, match="ends an answer") as refused:
        translated(Grammar(Syntax.LARK, f'start: "a" {token}'), ENDS)

    assert str(refused.value).startswith(f"{token} has {end}")


@pytest.mark.parametrize("token", ["<|other|>", "<[1]>", "<[3-6]>", "<[^2,5-9]>", "<[x]>", '"<|end|>"'])
def test_other_special_tokens_can_be(token: str) -> None:
    assert token in lark_of(Grammar(Syntax.LARK, f"start: {token}"))
