import orjson
import pytest
from hypothesis import given, strategies as st

from server.reading.scan import Scan

VALUES = st.recursive(
    st.none() | st.booleans() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)
CONTAINERS = st.dictionaries(st.text(), VALUES) | st.lists(VALUES)


@given(value=CONTAINERS, indent=st.booleans(), rest=st.text(), place=st.integers(0, 1000))
def test_a_value_is_taken_to_its_end_and_no_further(value: object, indent: bool, rest: str, place: int) -> None:
    text = orjson.dumps(value, option=orjson.OPT_INDENT_2 if indent else None).decode()
    scan, place = Scan(), place % len(text)

    taken = scan.take(text[:place]) + scan.take(text[place:] + rest)

    assert taken == text
    assert scan.closed
    assert scan.known
    assert not scan.broken


@given(value=CONTAINERS, place=st.integers(0, 1000))
def test_the_beginning_of_a_value_is_not_broken(value: object, place: int) -> None:
    text = orjson.dumps(value).decode()
    scan, place = Scan(), place % len(text)

    assert scan.take(text[:place]) == text[:place]
    assert not scan.broken
    assert not scan.closed


@pytest.mark.parametrize(
    "text",
    ['{"a": True, "b": [None, NaN,],}', '{"a": "x\ny"}', '{"a": "\\"}"}', '[{"a": -1.5e+3}, []]', "{ }", "[\n]"],
)
def test_what_is_nearly_json_is_taken_whole_where_its_end_is_clear(text: str) -> None:
    scan = Scan()

    assert scan.take(text + " }]") == text
    assert scan.closed


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ('{"a": x"}', '{"a": x'),
        ('{"a": "b" "c"}', '{"a": "b" '),
        ('{"a": b c}', '{"a": b '),
        ('{"a" "b"}', '{"a" '),
        ('{"a":: 1}', '{"a":'),
        ('{"a": }', '{"a": '),
        ('{"a": 1]', '{"a": 1'),
        ('{"a": [1}', '{"a": [1'),
        ('{"a": 1,, "b": 2}', '{"a": 1,'),
        ("{,}", "{"),
        ("{'a': 1}", "{"),
        ('{{"a": 1}}', "{"),
        ("[1: 2]", "[1"),
        ("[1 [2]]", "[1 "),
        ("[(1)]", "["),
    ],
)
def test_a_value_breaks_where_nothing_of_it_can_come(text: str, kept: str) -> None:
    scan = Scan()

    assert scan.take(text) == kept
    assert scan.broken
    assert not scan.closed
