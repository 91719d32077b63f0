from typing import Any

import pytest

from server.errors import ApiError
from server.turns import chat_messages, system_message
from server.wire.messages import CountRequest

Json = dict[str, Any]
CALL: Json = {"type": "tool_use", "id": "toolu_1", "name": "look", "input": {"at": "the sea", "deep": 2}}
RESULT: Json = {"type": "tool_result", "tool_use_id": "toolu_1", "content": "wet"}
TEMPLATES_CALL = {
    "id": "toolu_1",
    "type": "function",
    "function": {"name": "look", "arguments": '{"at":"the sea","deep":2}'},
}


def body(*messages: tuple[str, object], **fields: object) -> CountRequest:
    said = [{"role": role, "content": content} for role, content in messages or [("user", "hi")]]
    return CountRequest.model_validate({"model": "m", "messages": said, **fields})


def chat(*messages: tuple[str, object]) -> list[Json]:
    return chat_messages(body(*messages).messages)


def text(words: str) -> Json:
    return {"type": "text", "text": words}


def refusal(*messages: tuple[str, object]) -> str | None:
    with pytest.raises(ApiError) as refused:
        chat(*messages)
    assert refused.value.status == 400
    return refused.value.body["param"]


def test_a_string_and_a_text_block_are_the_same() -> None:
    assert chat(("user", "hi")) == chat(("user", [text("h"), text("i")])) == [{"role": "user", "content": "hi"}]


def test_messages_of_one_role_are_one_turn() -> None:
    said = chat(("user", "a"), ("user", [text("b")]), ("assistant", "c"), ("assistant", ""), ("user", "d"))

    assert said == [
        {"role": "user", "content": "a\n\nb"},
        {"role": "assistant", "content": "c"},
        {"role": "user", "content": "d"},
    ]


def test_a_call_and_its_result_are_messages_of_their_own() -> None:
    said = chat(
        ("user", "look"), ("assistant", [text("I look."), CALL]), ("user", [RESULT, text("and?")]), ("assistant", "wet")
    )

    assert said == [
        {"role": "user", "content": "look"},
        {"role": "assistant", "content": "I look.", "tool_calls": [TEMPLATES_CALL]},
        {"role": "tool", "tool_call_id": "toolu_1", "content": "wet"},
        {"role": "user", "content": "and?"},
        {"role": "assistant", "content": "wet"},
    ]


def test_results_in_two_messages_are_in_their_order() -> None:
    said = chat(("user", [text("so"), RESULT]), ("user", [RESULT | {"content": None}, text("on")]))

    assert [message["role"] for message in said] == ["user", "tool", "tool", "user"]
    assert [message["content"] for message in said] == ["so", "wet", "", "on"]


@pytest.mark.parametrize(
    ("fields", "content"),
    [
        ({"content": [text("a"), text("b")]}, "ab"),
        ({"content": []}, ""),
        ({"is_error": True}, "Error: wet"),
        ({"is_error": True, "content": "ERROR 5"}, "ERROR 5"),
        ({"is_error": True, "content": None}, "Error: "),
        ({"is_error": False}, "wet"),
    ],
)
def test_what_came_of_a_call_is_text(fields: Json, content: str) -> None:
    [_, said] = chat(("assistant", [CALL]), ("user", [RESULT | fields]))

    assert said == {"role": "tool", "tool_call_id": "toolu_1", "content": content}


def test_thoughts_are_kept_beside_the_text_and_what_servers_put_there_is_passed_over() -> None:
    said = chat(
        (
            "assistant",
            [
                {"type": "thinking", "thinking": "hm", "signature": "x"},
                {"type": "redacted_thinking", "data": "y"},
                {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}},
                {"type": "web_search_tool_result", "tool_use_id": "s", "content": []},
                text("so"),
            ],
        ),
        ("user", "go on"),
    )

    assert said[0] == {"role": "assistant", "content": "so", "reasoning_content": "hm"}


def test_an_assistant_that_said_nothing_has_had_its_turn() -> None:
    said = chat(("user", "a"), ("assistant", []), ("user", "b"))

    assert [message["content"] for message in said] == ["a", "", "b"]


def test_a_system_message_may_stand_between_the_others() -> None:
    said = chat(("user", "a"), ("system", "be brief"), ("user", "b"))

    assert [message["role"] for message in said] == ["user", "system", "user"]


@pytest.mark.parametrize(
    ("messages", "param"),
    [
        ([("user", "a"), ("user", [])], "messages[1].content"),
        ([("user", [text("a"), CALL])], "messages[0].content[1].type"),
        ([("assistant", [RESULT])], "messages[0].content[0].type"),
        ([("user", [{"type": "thinking", "thinking": "hm"}])], "messages[0].content[0].type"),
        ([("user", [{"type": "web_search_tool_result"}])], "messages[0].content[0].type"),
        ([("user", "a"), ("assistant", [CALL])], "messages"),
    ],
)
def test_blocks_that_a_role_does_not_write_are_refused(messages: list[tuple[str, object]], param: str) -> None:
    assert refusal(*messages) == param


def test_the_system_text_is_the_first_message() -> None:
    assert system_message(body(system="be brief").system) == [{"role": "system", "content": "be brief"}]
    assert system_message(body(system=[text("be "), text("brief")]).system) == system_message("be brief")


@pytest.mark.parametrize("system", [None, "", [], [text("")], "x-anthropic-billing-header: cc_version=2"])
def test_no_system_text_makes_no_message(system: object) -> None:
    assert system_message(body(system=system).system) == []


def test_a_text_that_differs_in_every_request_is_dropped() -> None:
    system = body(system=[text("x-anthropic-billing-header: cch=0a1b2;"), text("be brief")]).system

    assert system_message(system) == [{"role": "system", "content": "be brief"}]
