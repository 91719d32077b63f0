import pytest

from engine.grammar.patterns import in_librarys_syntax, literal_classes


@pytest.mark.parametrize(
    ("pattern", "said"),
    [
        ("^a&&b~[x-z]$", "^a&&b~[x-z]$"),
        ("[^a&&b]", r"[^a\&\&b]"),
        ("[[]&&", r"[\[]&&"),
        ("[a-z&&[aeiou]]", r"[a-z\&\&\[aeiou]]"),
        (r"\[&&[\]&~]", r"\[&&[\]\&\~]"),
        ("[[^a]", r"[\[^a]"),
        ("[a-]b--c", "[a-]b--c"),
    ],
)
def test_a_class_holds_what_it_lists(pattern: str, said: str) -> None:
    assert in_librarys_syntax(pattern) == said


def test_a_range_that_may_be_a_difference_is_refused() -> None:
    with pytest.raises(ValueError, match=r"has --: write"):
        in_librarys_syntax("[+--]")


def test_both_places_of_patterns_are_read() -> None:
    schema: dict[str, object] = {
        "pattern": "[&]",
        "patternProperties": {"[~]": {"type": "string"}},
        "const": {"pattern": "[&]"},
    }

    assert literal_classes(schema) == {
        "pattern": r"[\&]",
        "patternProperties": {r"[\~]": {"type": "string"}},
        "const": {"pattern": "[&]"},
    }
