from collections.abc import Mapping

import pytest
from hypothesis import given, strategies as st
from jsonschema import Draft202012Validator  # type: ignore[import-untyped]  # it has no types

from engine.grammar.rewording import MAX_BRANCHES, MAX_KEYS, MAX_LISTED, reworded
from engine.grammar.schema import demanding
from tests.engine.grammar.test_guidance import for_schema, is_whole
from tests.engine.grammar.test_opposite import COUNTS, KEYS, SCHEMAS, VALUES, fits

LACKED = {
    "not": SCHEMAS,
    "if": SCHEMAS,
    "then": SCHEMAS,
    "else": SCHEMAS,
    "dependentRequired": st.dictionaries(KEYS, st.lists(KEYS, max_size=2, unique=True), max_size=2),
    "dependentSchemas": st.dictionaries(KEYS, SCHEMAS, max_size=2),
    "anyOf": st.lists(SCHEMAS, min_size=1, max_size=2),
}
NAMED = {
    "propertyNames": st.sampled_from([{"type": "string"}, {"pattern": "^a$"}, {"enum": ["a", 1]}, True]),
    "uniqueItems": st.just(value=True),
    "items": st.sampled_from([{"enum": [1, 1.0, True, "a"]}, {"enum": ["a", [1], "a"]}]),
    "properties": st.dictionaries(KEYS, SCHEMAS, max_size=2),
    "required": st.lists(KEYS, max_size=2, unique=True),
    "minProperties": COUNTS,
    "maxProperties": COUNTS,
    "minItems": COUNTS,
    "maxItems": COUNTS,
    "type": st.sampled_from(["array", "object"]),
    "allOf": st.lists(SCHEMAS, min_size=1, max_size=2),
}


@given(st.fixed_dictionaries({}, optional=LACKED), VALUES)
def test_conditions_say_the_same_in_other_words(schema: dict[str, object], value: object) -> None:
    words = reworded(schema)

    lacked = {"not", "if", "dependentRequired", "dependentSchemas"}
    assert not lacked & words.keys()
    assert fits(words, value) == fits(schema, value)


@given(st.fixed_dictionaries({}, optional=NAMED), VALUES)
def test_what_fits_the_new_words_fits_the_old_ones(schema: dict[str, object], value: object) -> None:
    assert fits(schema, value) or not fits(reworded(schema), value)


@given(st.lists(st.lists(KEYS, max_size=2, unique=True), min_size=2, max_size=4), VALUES)
def test_of_branches_that_name_keys_exactly_one_fits(keys: list[list[str]], value: object) -> None:
    schema = {"oneOf": [{"required": each} for each in keys]}

    words = reworded(demanding(schema))

    assert "oneOf" not in words
    assert fits(words, value) == (isinstance(value, dict) and fits(schema, value))


@pytest.mark.parametrize(
    ("schema", "matching", "others"),
    [
        ({"not": {"type": ["object", "array"]}}, ["1", '"a"'], ["{}", "[]"]),
        ({"type": "string", "not": {"enum": ["a", "b"]}}, ['""', '"ab"', '"c"'], ['"a"', '"b"']),
        ({"not": {"required": ["a", "b"]}, "type": "object"}, ["{}", '{"a":1}', '{"c":1}'], ['{"a":1,"b":1}']),
        (
            {
                "type": "object",
                "properties": {"kind": {"enum": ["round", "square"]}, "side": {"type": "integer"}},
                "required": ["kind"],
                "if": {"properties": {"kind": {"const": "square"}}},
                "then": {"required": ["side"]},
                "else": {"properties": {"side": False}},
            },
            ['{"kind":"round"}', '{"kind":"square","side":1}'],
            ['{"kind":"square"}', '{"kind":"round","side":1}'],
        ),
        (
            {"type": "object", "properties": {"a": {}, "b": {}}, "dependencies": {"a": ["b"]}},
            ["{}", '{"b":1}', '{"a":1,"b":1}', '{"c":1}'],
            ['{"a":1}'],
        ),
        (
            {"type": "object", "additionalProperties": {"type": "integer"}, "propertyNames": {"pattern": "^[ab]+$"}},
            ["{}", '{"a":1,"ab":2}'],
            ['{"c":1}', '{"a":"b"}'],
        ),
        ({"type": "object", "propertyNames": {"enum": ["a", "b"]}}, ["{}", '{"a":1,"b":[]}'], ['{"c":1}']),
        (
            {"type": "object", "properties": {"a": {}, "b": {}}, "minProperties": 1},
            ['{"a":1}', '{"b":1}', '{"a":1,"c":1}'],
            ["{}"],
        ),
        (
            {"type": "object", "properties": {"a": {}, "b": {}}, "minProperties": 1, "maxProperties": 1},
            ['{"a":1}', '{"b":1}'],
            ["{}", '{"a":1,"b":1}', '{"a":1,"c":1}'],
        ),
        (
            {"type": "array", "items": {"enum": ["a", "b", 1]}, "uniqueItems": True, "minItems": 1},
            ['["a"]', '["b",1,"a"]'],
            ["[]", '["a","a"]', '["b",1,"b"]'],
        ),
        ({"type": "array", "uniqueItems": True, "maxItems": 1}, ["[]", "[5]"], ["[5,5]", "[5,6]"]),
        (
            {"type": "object", "properties": {"a": {}, "b": {}}, "oneOf": [{"required": ["a"]}, {"required": ["b"]}]},
            ['{"a":1}', '{"b":1}', '{"b":1,"c":1}'],
            ["{}", '{"a":1,"b":1}'],
        ),
        ({"$ref": "#/definitions/A<b|c>", "definitions": {"A<b|c>": {"type": "null"}}}, ["null"], ["1"]),
    ],
)
def test_an_output_follows_what_the_library_has_no_word_for(
    schema: Mapping[str, object], matching: list[str], others: list[str]
) -> None:
    for text in matching:
        assert is_whole(for_schema(schema), text), text
    for text in others:
        assert not is_whole(for_schema(schema), text), text


@pytest.mark.parametrize(
    "schema",
    [
        {"not": {"pattern": "a"}},
        {"if": {"format": "date"}, "then": {"minLength": 1}},
        {"if": 5, "then": {"minLength": 1}, "else": {"maxLength": 3}},
        {"dependencies": 5},
        {"dependentSchemas": {"a": 5}},
        {"propertyNames": {"pattern": "a", "minLength": 1}},
        {"propertyNames": {"$ref": "#/gone"}},
        {"uniqueItems": True, "items": {"enum": ["a"]}},
        {"type": "array", "uniqueItems": True, "items": {"type": "string"}},
        {"type": "array", "uniqueItems": True, "items": {"enum": list(range(MAX_LISTED + 1))}},
        {"type": "array", "uniqueItems": True, "items": {"enum": [1]}, "minItems": "1"},
        {"minProperties": 1},
        {"minProperties": 2, "properties": {"a": {}}},
        {"minProperties": "1", "properties": {"a": {}}},
        {"minProperties": 1, "properties": {str(n): {} for n in range(MAX_KEYS + 1)}},
        {"maxProperties": 1, "properties": {str(n): {} for n in range(MAX_KEYS + 1)}},
        {"maxProperties": 2, "properties": {"a": {}}},
        {"maxProperties": 0},
        {"oneOf": 5},
        {"oneOf": [{"required": ["a"]}]},
        {"oneOf": [{"required": ["a"]}, {"const": 1}]},
        {"oneOf": [{"required": ["a"]}, {"required": ["b"], "properties": {"a": {}}}]},
        {"oneOf": [{"required": [str(n)]} for n in range(MAX_BRANCHES + 1)]},
        {"format": "date"},
        {"format": 5},
        {"$schema": "http://example.com/schema", "$ref": "other<"},
        {"$schema": 5, "$ref": 5},
    ],
)
def test_what_can_t_be_said_otherwise_stays_for_the_library_to_refuse(schema: dict[str, object]) -> None:
    assert reworded(schema) == schema


@pytest.mark.parametrize(
    ("uri", "name"),
    [
        ("https://json-schema.org/draft-07/schema", "http://json-schema.org/draft-07/schema#"),
        ("http://json-schema.org/draft-04/schema#", "http://json-schema.org/draft-04/schema#"),
        ("http://json-schema.org/draft/2019-09/schema#", "https://json-schema.org/draft/2019-09/schema"),
        ("http://json-schema.org/schema#", "https://json-schema.org/draft/2020-12/schema"),
    ],
)
def test_a_draft_is_known_however_it_is_spelled(uri: str, name: str) -> None:
    assert reworded({"$schema": uri}) == {"$schema": name}
    assert is_whole(for_schema({"$schema": uri, "type": "null"}), "null")


@pytest.mark.parametrize(
    ("draft", "keyword", "value"),
    [
        ("draft-04", "propertyNames", {"pattern": "^a$"}),
        ("draft-06", "if", {"type": "object"}),
        ("draft-07", "dependentRequired", {"a": ["b"]}),
    ],
)
def test_what_a_draft_does_not_know_it_does_not_demand(draft: str, keyword: str, value: object) -> None:
    schema = {"$schema": f"http://json-schema.org/{draft}/schema#", keyword: value, "then": False}

    assert reworded(schema) == schema


def test_a_condition_from_which_nothing_follows_is_left_out() -> None:
    assert reworded({"if": {"pattern": "a"}}) == {}
    assert reworded({"if": {"pattern": "a"}, "then": True, "else": {}, "type": "null"}) == {"type": "null"}


def test_what_nothing_fits_is_refused_as_such() -> None:
    assert reworded({"not": {}}) == {"anyOf": [False]}


def test_words_stand_beside_those_that_are_there() -> None:
    schema = {"anyOf": [{}], "allOf": [{}], "not": {"type": "null"}, "dependencies": {}}

    words = reworded(schema)

    others = {"type": ["boolean", "number", "string", "array", "object"]}
    assert words == {"anyOf": [{}], "allOf": [{}], **others}
    assert reworded({**schema, "type": "string"}) == {"anyOf": [{}], "allOf": [{}, others], "type": "string"}


def test_a_value_is_listed_once_as_json_has_it() -> None:
    schema = {"type": "array", "uniqueItems": True, "items": {"enum": [1, 1.0, True]}}

    listed = reworded(schema)["enum"]

    assert listed == [[], [1], [True], [1, True], [True, 1]]


def test_it_can_be_judged_as_a_schema() -> None:
    schema = {"if": {"properties": {"a": {"const": 1}}}, "then": {"required": ["b"]}, "propertyNames": {"enum": ["a"]}}

    Draft202012Validator.check_schema(reworded(schema))
