from typing import Any

import pytest

from server.errors import ApiError, unsupported
from server.messages import NAMES, chat_body
from server.wire.chat import ChatRequest
from server.wire.messages import CountRequest, MessagesRequest
from server.words import in_words_of

Json = dict[str, Any]
SCHEMA: Json = {"type": "object", "properties": {"at": {"type": "string"}}}
TOOL: Json = {"name": "look", "description": "looks", "input_schema": SCHEMA}


def translated(**fields: object) -> ChatRequest:
    good = {"model": "m", "messages": [{"role": "user", "content": "hi"}], "max_tokens": 9}
    return chat_body(MessagesRequest.model_validate(good | fields))


def tools_of(chat: ChatRequest) -> list[Json]:
    """The chat's tools as JSON, without what was not asked for."""
    return [tool.model_dump(exclude_none=True) for tool in chat.tools or ()]


def refusal(**fields: object) -> str | None:
    with pytest.raises(ApiError) as refused:
        translated(**fields)
    return refused.value.body["param"]


def test_what_was_asked_for_is_asked_of_the_chat() -> None:
    chat = translated(
        system="be brief", temperature=0.5, top_p=0.9, top_k=7, stop_sequences=["a", "b"], stream=True, metadata={}
    )

    assert [(message.role, message.content) for message in chat.messages] == [("system", "be brief"), ("user", "hi")]
    assert (chat.model, chat.max_tokens, chat.stream) == ("m", 9, True)
    assert (chat.temperature, chat.top_p, chat.top_k, chat.stop) == (0.5, 0.9, 7, ["a", "b"])


def test_what_was_not_asked_for_is_absent() -> None:
    chat = translated(stop_sequences=[], tools=[], output_config={}, thinking=None)

    assert chat.model_fields_set == {"model", "messages", "max_tokens"}


def test_a_conversation_that_is_counted_needs_no_limit() -> None:
    counted = CountRequest.model_validate({"model": "m", "messages": [{"role": "user", "content": "hi"}]})

    assert chat_body(counted).messages == translated().messages


def test_an_answer_that_has_begun_goes_on() -> None:
    begun = [{"role": "user", "content": "count"}, {"role": "assistant", "content": "one, two,"}]

    assert translated(messages=begun).continue_final_message
    assert translated().continue_final_message is None


def test_a_tool_is_a_function() -> None:
    chat = translated(tools=[TOOL, TOOL | {"type": "custom", "name": "see", "strict": True, "cache_control": {}}])

    assert tools_of(chat) == [
        {"type": "function", "function": {"name": "look", "description": "looks", "parameters": SCHEMA}},
        {
            "type": "function",
            "function": {"name": "see", "description": "looks", "parameters": SCHEMA, "strict": True},
        },
    ]


def test_a_tool_of_anthropics_own_keeps_its_type() -> None:
    chat = translated(tools=[{"type": "web_search_20250305", "name": "web_search", "max_uses": 3}])

    assert tools_of(chat) == [{"type": "web_search_20250305"}]


@pytest.mark.parametrize(
    ("choice", "want"),
    [
        ({"type": "auto"}, "auto"),
        ({"type": "any", "disable_parallel_tool_use": False}, "required"),
        ({"type": "none"}, "none"),
        ({"type": "tool", "name": "look"}, {"type": "function", "function": {"name": "look"}}),
    ],
)
def test_a_choice_of_tools_has_the_chats_name(choice: Json, want: object) -> None:
    assert translated(tools=[TOOL], tool_choice=choice).tool_choice == want


def test_calls_beside_each_other_can_be_forbidden() -> None:
    choice = {"type": "auto", "disable_parallel_tool_use": True}

    assert translated(tools=[TOOL], tool_choice=choice).parallel_tool_calls is False
    assert translated(tools=[TOOL], tool_choice={"type": "auto"}).parallel_tool_calls is None


@pytest.mark.parametrize(
    ("thinking", "effort", "want"),
    [
        ({"type": "enabled", "budget_tokens": 2048}, None, "medium"),
        ({"type": "adaptive"}, "max", "max"),
        ({"type": "disabled"}, "high", "none"),
        (None, "low", "low"),
        (None, None, None),
    ],
)
def test_how_much_to_think_is_an_effort(thinking: object, effort: object, want: str | None) -> None:
    assert translated(thinking=thinking, output_config={"effort": effort}).reasoning_effort == want


def test_variables_of_the_template_are_kept() -> None:
    assert translated(chat_template_kwargs={"a": 1}).chat_template_kwargs == {"a": 1}


def test_a_schema_of_the_answer_is_a_response_format() -> None:
    chat = translated(output_config={"effort": "low", "format": {"type": "json_schema", "schema": SCHEMA}})

    assert chat.response_format is not None
    assert chat.response_format.json_schema is not None
    assert chat.response_format.json_schema.schema_ == SCHEMA


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"tools": [{"input_schema": SCHEMA}]}, "tools[0].name"),
        ({"tools": [TOOL, {"name": "see"}]}, "tools[1].input_schema"),
        ({"tools": [{"type": "custom", "name": "see"}]}, "tools[0].input_schema"),
        ({"tool_choice": {"type": "tool"}}, "tool_choice.name"),
    ],
)
def test_what_is_missing_is_named(fields: Json, param: str) -> None:
    assert refusal(**fields) == param


@pytest.mark.parametrize(
    ("chats", "own"),
    [
        ("messages[3].content", "messages"),
        ("tools[1].function.parameters", "tools[1].input_schema"),
        ("tools[1].function.parameters.properties.a", "tools[1].input_schema.properties.a"),
        ("tools[1].function.name", "tools[1].name"),
        ("tools", "tools"),
        ("tool_choice.function.name", "tool_choice"),
        ("parallel_tool_calls", "tool_choice.disable_parallel_tool_use"),
        ("response_format", "output_config.format"),
        ("response_format.json_schema.schema.type", "output_config.format.schema.type"),
        ("reasoning_effort", "output_config.effort"),
        ("stop", "stop_sequences"),
        ("stop[1]", "stop_sequences[1]"),
        ("temperature", "temperature"),
    ],
)
def test_an_error_names_the_field_that_the_client_wrote(chats: str, own: str) -> None:
    with pytest.raises(ApiError) as refused, in_words_of(NAMES):
        raise unsupported(chats, "is not available here")

    assert refused.value.body["param"] == own
    assert str(refused.value) == f"{own}: is not available here"
    assert refused.value.body["code"] == "unsupported_parameter"


def test_an_error_about_no_field_stays_as_it_is() -> None:
    error = ApiError(429, "later", headers={"retry-after": "1"})

    with pytest.raises(ApiError) as refused, in_words_of(NAMES):
        raise error

    assert refused.value is error
