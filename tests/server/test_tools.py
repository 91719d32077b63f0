import logging

import pytest

from server.errors import ApiError
from server.tools import NOTHING, Offer, offer_of
from server.wire.chat import ChatRequest


def function(name: str) -> dict[str, object]:
    return {"type": "function", "function": {"name": name}}


TOOLS = [function("look"), function("go")]


def offer(**fields: object) -> Offer:
    good = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}
    return offer_of(ChatRequest.model_validate(good | {"tools": TOOLS} | fields))


@pytest.mark.parametrize("choice", [None, "auto"])
def test_tools_may_be_called_unless_something_else_is_said(choice: str | None) -> None:
    got = offer(tool_choice=choice)

    assert [tool.name for tool in got.shown] == ["look", "go"]
    assert (sorted(got.names), got.required, got.single) == (["go", "look"], False, False)


def test_none_are_neither_shown_nor_called() -> None:
    assert offer(tool_choice="none") == NOTHING
    assert offer(tools=None) == NOTHING


def test_one_call_at_most() -> None:
    assert offer(parallel_tool_calls=False).single


@pytest.mark.parametrize(
    ("choice", "names", "required"),
    [
        ("required", {"look", "go"}, True),
        (function("go"), {"go"}, True),
        ({"type": "function", "name": "go"}, {"go"}, True),
        ({"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": [function("go")]}}, {"go"}, False),
        ({"type": "allowed_tools", "mode": "required", "tools": TOOLS}, {"look", "go"}, True),
    ],
)
def test_what_may_be_called_is_not_what_is_shown(choice: object, names: set[str], *, required: bool) -> None:
    got = offer(tool_choice=choice)

    assert (sorted(got.names), got.required) == (sorted(names), required)
    assert [tool.name for tool in got.shown] == ["look", "go"]


def test_other_kinds_of_tools_are_dropped_with_one_warning(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        got = offer(tools=[{"type": "web_search"}, *TOOLS, {"type": "custom", "custom": {"name": "x"}}])

    assert got.names == {"look", "go"}
    assert got.places == {"look": "tools[1].function.parameters", "go": "tools[2].function.parameters"}
    [record] = caplog.records
    assert record.getMessage() == "tools_dropped"
    assert vars(record)["fields"] == {"tools": 2, "kinds": "custom,web_search"}


@pytest.mark.parametrize("choice", ["required", function("look")])
def test_a_call_can_only_be_asked_for_where_there_are_tools(choice: object) -> None:
    with pytest.raises(ApiError, match="there are no `tools`"):
        offer(tools=[{"type": "web_search"}], tool_choice=choice)
