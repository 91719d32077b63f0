from typing import Any

from pydantic import TypeAdapter

from server.items import chat_messages, kept_items, references
from server.wire.response_bodies import ItemBody
from server.wire.responses import Input

INPUT = TypeAdapter[Input](Input)


def nothing(id: str) -> ItemBody:
    raise AssertionError(id)


def kept(*items: dict[str, Any], find: Any = nothing) -> list[Any]:
    return list(kept_items(INPUT.validate_python(list(items)), find=find))


def messages(*items: dict[str, Any]) -> list[dict[str, object]]:
    return chat_messages(kept(*items))


def said(role: str, text: str) -> dict[str, Any]:
    return {"role": role, "content": text}


CALL = {"type": "function_call", "call_id": "c1", "name": "add", "arguments": '{"a":1}'}
RESULT = {"type": "function_call_output", "call_id": "c1", "output": "2"}
THOUGHT = {"type": "reasoning", "summary": [], "content": [{"type": "reasoning_text", "text": "hm"}]}
CHAT_CALL = {"id": "c1", "type": "function", "function": {"name": "add", "arguments": '{"a":1}'}}


def test_a_text_is_a_turn_of_the_user() -> None:
    [item] = kept_items("hello", find=nothing)

    assert chat_messages([item]) == [said("user", "hello")]
    assert item["id"].startswith("msg_")


def test_roles_and_parts_are_kept() -> None:
    parts = [{"type": "input_text", "text": "a"}, {"type": "input_text", "text": "b"}]

    assert messages(said("developer", "d"), said("system", "s"), {"role": "user", "content": parts}) == [
        said("developer", "d"), said("system", "s"), said("user", "ab")
    ]  # fmt: skip


def test_an_assistants_parts_are_its_text_and_what_it_refused() -> None:
    parts = [{"type": "output_text", "text": "a"}, {"type": "refusal", "refusal": "no"}]

    assert messages({"type": "message", "role": "assistant", "content": parts}) == [said("assistant", "ano")]


def test_reasoning_text_and_calls_are_one_turn_and_results_are_their_own() -> None:
    turn = messages(THOUGHT, said("assistant", "let me see"), CALL, RESULT, said("assistant", "two"))

    assert turn == [
        {"role": "assistant", "content": "let me see", "reasoning_content": "hm", "tool_calls": [CHAT_CALL]},
        {"role": "tool", "tool_call_id": "c1", "content": "2"},
        said("assistant", "two"),
    ]


def test_calls_behind_each_other_are_one_turn() -> None:
    second = CALL | {"call_id": "c2"}

    [turn] = messages(CALL, second)

    assert turn["content"] == ""
    assert turn["tool_calls"] == [CHAT_CALL, CHAT_CALL | {"id": "c2"}]


def test_two_texts_or_two_thoughts_are_two_turns() -> None:
    assert messages(said("assistant", "a"), said("assistant", "b")) == [said("assistant", "a"), said("assistant", "b")]
    assert [turn["reasoning_content"] for turn in messages(THOUGHT, THOUGHT)] == ["hm", "hm"]
    assert messages(CALL, said("assistant", "a")) == [
        {"role": "assistant", "content": "", "tool_calls": [CHAT_CALL]}, said("assistant", "a")
    ]  # fmt: skip


def test_what_is_not_known_here_is_passed_over() -> None:
    foreign = (
        {"type": "custom_tool_call", "id": 7},
        {"type": "web_search_call"},
        {"type": "reasoning", "content": None},
    )
    encrypted = {"type": "reasoning", "summary": [], "encrypted_content": "xyz", "content": [{"type": "other"}, 3]}

    assert messages(*foreign, encrypted, said("user", "hi")) == [said("user", "hi")]


def test_items_keep_the_ids_that_they_have() -> None:
    items = kept(
        *({**item, "id": "mine"} for item in (CALL, RESULT, THOUGHT, said("user", "a"), said("assistant", "b")))
    )

    assert {item["id"] for item in items} == {"mine"}
    assert all(item["status"] == "completed" for item in items)


def test_what_is_named_is_found() -> None:
    [found] = kept(said("user", "hi"))
    given = INPUT.validate_python([{"type": "item_reference", "id": "x"}, {"id": "y"}, said("user", "hi")])

    assert references(given) == ["x", "y"]
    assert references("x") == []
    assert [item["id"] for item in kept_items(given, find=lambda id: {"x": found, "y": found}[id])][:2] == [
        found["id"]
    ] * 2


def test_the_output_of_a_call_may_have_parts() -> None:
    output = [{"type": "input_text", "text": "a"}, {"type": "input_text", "text": "b"}]

    [_, result] = messages(CALL, RESULT | {"output": output})

    assert result["content"] == "ab"
