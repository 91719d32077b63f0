import pytest
from starlette.requests import Request

from server.errors import ApiError
from server.query import choice_in, flag_in, number_in


def asked(query: str) -> Request:
    return Request({"type": "http", "query_string": query.encode(), "headers": []})


@pytest.mark.parametrize(("query", "value"), [("", False), ("x=true", True), ("x=1", True), ("x=False", False)])
def test_a_switch_is_off_where_it_is_left_out(query: str, value: bool) -> None:
    assert flag_in(asked(query), "x") is value


@pytest.mark.parametrize(("query", "value"), [("", 5), ("x=1", 1), ("x=9", 9)])
def test_a_number_has_a_default(query: str, value: int) -> None:
    assert number_in(asked(query), "x", least=1, most=9, default=5) == value


def test_a_choice_has_a_default() -> None:
    assert choice_in(asked(""), "x", ("a", "b"), default="b") == "b"
    assert choice_in(asked("x=a"), "x", ("a", "b"), default="b") == "a"


@pytest.mark.parametrize("query", ["x=maybe", "x=", "x=-1", "x=1.5", "x=10", "x=9999999999999", "x=٣"])
def test_what_is_out_of_range_is_refused_by_name(query: str) -> None:
    for read in (
        lambda: flag_in(asked(query), "x"),
        lambda: number_in(asked(query), "x", least=1, most=9, default=5),
        lambda: choice_in(asked(query), "x", ("a", "b"), default="b"),
    ):
        with pytest.raises(ApiError) as refused:
            read()
        assert (refused.value.status, refused.value.body["param"]) == (400, "x")
