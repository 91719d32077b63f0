import pytest

from engine.grammar.bounds import (
    MAX_BRANCHES,
    MAX_REPEATS,
    check_expression,
    check_lark,
    check_schema,
    special_tokens,
)


@pytest.mark.parametrize(
    ("text", "repeats"),
    [
        ("abc", 1),
        ("a{5}b{6}", 6),
        ("(a{5}|[)}]{7}){3}", 21),
        ("a{2}?{3}", 6),
        ("a{0,1000000}", 1),
        ("a{,5}", 1),
        ("[{9}]{ 3 }", 3),
        (r"\{99}\({2}", 2),
        (")a{3}(", 3),
        ("((a{10}){10}){100}", 10_000),
    ],
)
def test_an_expression_repeats_what_it_has_to_repeat(text: str, repeats: int) -> None:
    assert check_expression(text) == repeats


@pytest.mark.parametrize(
    ("text", "repeats"),
    [("a{100000000}", 10**8), ("x*(a{1000}){1000}{1000}", 10**9), ("(((a{10}b){100}c){51})", 51_000)],
)
def test_what_is_repeated_too_often_is_refused_with_both_numbers(text: str, repeats: int) -> None:
    for check in (
        check_expression,
        lambda text: check_lark(f"start: /{text}/"),
        lambda text: check_schema(_with(text)),
    ):
        with pytest.raises(ValueError, match=f"{repeats} times, at most {MAX_REPEATS}"):
            check(text)


def _with(pattern: str) -> dict[str, object]:
    return {"properties": {"a": {"items": [{"pattern": pattern}]}}}


@pytest.mark.parametrize(
    ("text", "repeats"),
    [
        ('start: "a" | b\nb: "c"', 1),
        ('start: A{20} x\nx: y{30}\nA: "a"', 600),
        ("start[lazy]: a~5\n?b.2: c~3..4", 15),
        ("start: [a b]{3} (c){2}+", 3),
        ('start: "{99}" // {98}\n# {97}\na: /[{96}]/ %json {"pattern":"a{95}"}', 1),
    ],
)
def test_the_rules_of_a_grammar_may_repeat_one_another(text: str, repeats: int) -> None:
    assert check_lark(text) == repeats


def test_a_rule_has_so_many_branches_and_a_terminal_as_many_as_it_likes() -> None:
    branches = " | ".join(f'"{number}"' for number in range(MAX_BRANCHES + 1))

    assert check_lark(f"start: A\nA: {branches}") == 1
    with pytest.raises(ValueError, match=f"{MAX_BRANCHES + 1} branches, at most {MAX_BRANCHES}"):
        check_lark(f'start: "x"+ a\na: {branches}')


def test_numbers_and_values_of_a_schema_have_bounds() -> None:
    objects = [{"a": number} for number in range(MAX_BRANCHES + 1)]

    assert (
        check_schema({"multipleOf": 0.05, "enum": list(range(MAX_BRANCHES + 1)), "const": {"multipleOf": 10**9}}) == 1
    )
    assert check_schema({"multipleOf": True, "default": {"enum": objects}}) == 1
    with pytest.raises(ValueError, match="multipleOf is 1234567"):
        check_schema({"items": {"multipleOf": 1_234_567}})
    with pytest.raises(ValueError, match=f"{MAX_BRANCHES + 1} values, at most {MAX_BRANCHES}"):
        check_schema({"$defs": {"x": {"enum": objects}}})


@pytest.mark.parametrize("key", ["minItems", "minLength", "minProperties"])
def test_what_no_answer_can_have_is_refused_with_both_numbers(key: str) -> None:
    with pytest.raises(ValueError, match=f"{key} is {MAX_REPEATS + 1}, at most {MAX_REPEATS}"):
        check_schema({"items": {key: MAX_REPEATS + 1}})
    assert check_schema({key: "5"}) == 1


@pytest.mark.parametrize(
    "schema",
    [
        {"minProperties": 1},
        {"minProperties": 2, "required": ["a"]},
        {"minProperties": 9, "additionalProperties": False},
    ],
)
def test_properties_that_are_sure_may_be_asked_for(schema: dict[str, object]) -> None:
    assert check_schema(schema) == 1


@pytest.mark.parametrize(
    ("schema", "sure"),
    [
        ({"minProperties": 2}, 1),
        ({"minProperties": 4, "required": ["a", "b", "a"], "additionalProperties": {"type": "integer"}}, 3),
        ({"minProperties": 3, "patternProperties": {"^a": {}}, "additionalProperties": False}, 1),
    ],
)
def test_keys_that_may_come_again_are_not_counted_on(schema: dict[str, object], sure: int) -> None:
    with pytest.raises(ValueError, match=f"minProperties is {schema['minProperties']}, at most {sure} is taken"):
        check_schema({"anyOf": [schema]})


def test_patterns_of_names_count_too() -> None:
    assert check_schema({"patternProperties": {"^a{7}$": {"pattern": "b{3}"}}}) == 7
    assert check_schema({"properties": {"pattern": {"type": "string"}}, "pattern": 5}) == 1


def test_special_tokens_are_those_outside_of_texts() -> None:
    assert list(special_tokens('start: <|end|> "<a>" /<b>/ <[1,3-4]> # <c>\n <[^2]>')) == [
        "<|end|>",
        "<[1,3-4]>",
        "<[^2]>",
    ]


@pytest.mark.parametrize(
    "schema",
    [
        {"const": -(2**63)},
        {"const": 2**53 + 1},
        {"enum": ["a", 1153457812345678905]},
        {"const": [{"a": 1e300}]},
        {"minimum": -2e19, "maximum": -1e19},
        {"exclusiveMinimum": 2**64},
        {"items": {"maximum": 2**53 + 1}},
    ],
)
def test_a_number_that_would_become_another_is_refused(schema: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="is no double-precision number below"):
        check_schema(schema)


@pytest.mark.parametrize(
    "schema",
    [
        {"const": 2**53, "enum": [True, None, -(2**60), 0.1, {"a": [5e-324]}]},
        {"minimum": 0, "maximum": 2**63 - 1},
        {"exclusiveMaximum": 1e20},
        {"default": 2**64 + 1},
    ],
)
def test_a_number_that_is_kept_is_taken_and_so_is_a_bound_above_all(schema: dict[str, object]) -> None:
    assert check_schema(schema) == 1
