import re
from collections.abc import Callable

import pytest
from hypothesis import given, strategies as st
from jsonschema import Draft202012Validator  # type: ignore[import-untyped]  # it has no types

from engine.grammar.allowance import Allowance
from engine.grammar.opposite import MAX_CHARACTERS, Opposites, Said, every, other_than, some

KEYS = st.sampled_from(["a", "b"])
PLAIN = st.none() | st.booleans() | st.integers(-2, 3) | st.sampled_from([0.5, "", "a", "ab", "b", "]", "^", "é"])
VALUES = st.recursive(
    PLAIN, lambda inner: st.lists(inner, max_size=2) | st.dictionaries(KEYS, inner, max_size=2), max_leaves=4
)
TYPES = st.sampled_from(["null", "boolean", "number", "string", "array", "object"])
COUNTS = st.integers(0, 2)
NUMBERS = st.sampled_from([-1, 0, 0.5, 2])


def _within(inner: st.SearchStrategy[object]) -> st.SearchStrategy[object]:
    parts = st.lists(inner, min_size=1, max_size=2)
    return st.fixed_dictionaries(
        {},
        optional={
            "type": TYPES | st.lists(TYPES, min_size=1, max_size=3, unique=True),
            "properties": st.dictionaries(KEYS, inner, min_size=1, max_size=2),
            "anyOf": parts,
            "allOf": parts,
            "not": inner,
        },
    )


LEAVES = st.booleans() | st.fixed_dictionaries(
    {},
    optional={
        "type": TYPES,
        "const": PLAIN,
        "enum": st.lists(PLAIN, min_size=1, max_size=4),
        "required": st.lists(KEYS, max_size=2, unique=True),
        "minLength": COUNTS,
        "maxLength": COUNTS,
        "minItems": COUNTS,
        "maxItems": COUNTS,
        "minimum": NUMBERS,
        "maximum": NUMBERS,
        "exclusiveMinimum": NUMBERS,
        "exclusiveMaximum": NUMBERS,
        "title": st.just("a note"),
    },
)
SCHEMAS = st.recursive(LEAVES, _within, max_leaves=5)


def opposite(schema: object, **root: object) -> Said | None:
    return Opposites(root, Allowance()).of(schema)


def fits(schema: object, value: object) -> bool:
    return bool(Draft202012Validator(schema).is_valid(value))


@given(SCHEMAS, VALUES)
def test_a_value_fits_a_schema_or_its_opposite_and_never_both(schema: object, value: object) -> None:
    other = opposite(schema)

    assert other is not None
    assert fits(schema, value) != fits(other, value)


@pytest.mark.parametrize(
    "schema",
    [
        {"pattern": "a"},
        {"type": "integer"},
        {"type": 5},
        {"type": "objekt"},
        {"const": [1]},
        {"enum": 5},
        {"enum": ["a" * (MAX_CHARACTERS + 1)]},
        {"required": 5},
        {"required": [5]},
        {"properties": []},
        {"properties": {"a": {"pattern": "a"}}},
        {"minLength": "1"},
        {"minItems": True},
        {"minimum": 5, "exclusiveMinimum": True},
        {"anyOf": [{"const": 1}, {"format": "date"}]},
        {"anyOf": 5},
        {"allOf": [5]},
        {"not": 5},
        {"$ref": "#/definitions/gone"},
        {"$ref": "http://example.com/a"},
        {"$ref": "#/definitions/a", "minLength": 1},
        5,
        None,
    ],
)
def test_what_can_t_be_said_has_no_opposite(schema: object) -> None:
    assert opposite(schema, definitions={"a": {"type": "string"}}) is None


def test_a_reference_has_the_opposite_of_what_it_refers_to() -> None:
    schema = {"$ref": "#/definitions/a%3Cb%3E", "description": "a note"}

    other = opposite(schema, definitions={"a<b>": {"$ref": "#/definitions/c"}, "c": {"type": "string"}})

    assert other == {"type": ["null", "boolean", "number", "array", "object"]}


def test_references_that_name_much_are_refused() -> None:
    """Twenty short definitions name a million parts."""
    names = {f"a{n}": {"anyOf": [{"$ref": f"#/definitions/a{n + 1}"}] * 2} for n in range(20)}

    with pytest.raises(ValueError, match="grow by more than"):
        opposite({"$ref": "#/definitions/a0"}, definitions={**names, "a20": {"type": "string"}})


@pytest.mark.parametrize(
    ("join", "ways", "joined"),
    [
        (some, [], False),
        (some, [False, {"a": 1}], {"a": 1}),
        (some, [True, {"a": 1}], True),
        (some, [{"a": 1}, {"b": 1}], {"anyOf": [{"a": 1}, {"b": 1}]}),
        (some, [True, None], None),
        (every, [], True),
        (every, [True, {"a": 1}], {"a": 1}),
        (every, [False, {"a": 1}], False),
        (every, [{"a": 1}, {"b": 1}], {"allOf": [{"a": 1}, {"b": 1}]}),
        (every, [None, {"a": 1}], None),
    ],
)
def test_what_is_joined_is_as_short_as_it_can_be(
    join: Callable[[list[Said | None]], Said | None], ways: list[Said | None], joined: Said | None
) -> None:
    assert join(ways) == joined


@given(st.lists(st.text("ab]\\^-é\n", max_size=3), min_size=1, max_size=4), st.text("ab]\\^-é\n", max_size=4))
def test_every_text_but_those_that_are_named_matches(texts: list[str], text: str) -> None:
    assert (re.fullmatch(other_than(texts), text) is not None) == (text not in texts)
