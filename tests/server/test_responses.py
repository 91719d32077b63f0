from typing import Any

import pytest

from server.errors import ApiError
from server.items import kept_items
from server.responses import NAMES, chat_body, check, echo_of
from server.rules import wrong
from server.wire.response_bodies import ItemBody
from server.wire.responses import ResponsesRequest, TokensRequest
from server.words import in_words_of

FUNCTION = {"type": "function", "name": "add", "description": "adds", "parameters": {"type": "object"}, "strict": True}
SCHEMA = {"type": "object"}


def asked(**fields: Any) -> ResponsesRequest:
    return ResponsesRequest.model_validate({"model": "m", "input": "hello"} | fields)


def nowhere(id: str) -> ItemBody:
    raise AssertionError(id)


def chat(**fields: Any) -> dict[str, Any]:
    body = asked(**fields)
    return chat_body(body, kept_items(body.input, find=nowhere)).model_dump(exclude_none=True, by_alias=True)


def test_instructions_come_first() -> None:
    assert [(turn["role"], turn["content"]) for turn in chat(instructions="be brief")["messages"]] == [
        ("system", "be brief"), ("user", "hello")
    ]  # fmt: skip


def test_the_fields_that_a_chat_has_too_mean_the_same() -> None:
    body = chat(
        max_output_tokens=5, temperature=0.5, top_p=0.9, seed=3, stop="x", stream=True, logit_bias={"5": 2},
        parallel_tool_calls=False, reasoning={"effort": "low"}, top_k=4, presence_penalty=1,
    )  # fmt: skip

    assert body["max_completion_tokens"] == 5
    assert (body["temperature"], body["top_p"], body["seed"], body["stop"], body["stream"]) == (0.5, 0.9, 3, "x", True)
    assert body["logit_bias"] == {5: 2.0}
    assert (body["parallel_tool_calls"], body["reasoning_effort"]) == (False, "low")
    assert (body["top_k"], body["presence_penalty"]) == (4, 1.0)


@pytest.mark.parametrize(
    ("fields", "logprobs"),
    [
        ({}, (None, None)),
        ({"top_logprobs": 2}, (True, 2)),
        ({"include": ["message.output_text.logprobs"]}, (True, 0)),
        ({"include": ["reasoning.encrypted_content"]}, (None, None)),
    ],
)
def test_log_probabilities_are_listed_where_they_are_asked_for(fields: Any, logprobs: Any) -> None:
    body = chat(**fields)

    assert (body.get("logprobs"), body.get("top_logprobs")) == logprobs


def test_functions_are_tools_and_other_kinds_are_passed_on_to_be_passed_over() -> None:
    tools = chat(tools=[FUNCTION, {"type": "web_search"}])["tools"]

    assert tools == [
        {
            "type": "function",
            "function": {"name": "add", "description": "adds", "parameters": {"type": "object"}, "strict": True},
        },
        {"type": "web_search"},
    ]


@pytest.mark.parametrize(
    ("format", "made"),
    [
        ({"type": "text"}, {"type": "text"}),
        ({"type": "json_object"}, {"type": "json_object"}),
        (
            {"type": "json_schema", "name": "n", "schema": SCHEMA, "strict": True},
            {"type": "json_schema", "json_schema": {"name": "n", "schema": SCHEMA, "strict": True}},
        ),
    ],
)
def test_a_format_is_the_chats(format: Any, made: Any) -> None:
    assert chat(text={"format": format})["response_format"] == made


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"text": {"format": {"type": "json_schema", "name": "n"}}}, "text.format.schema"),
        ({"tools": [{"type": "function"}]}, "tools[0].name"),
        ({"tools": [FUNCTION | {"parameters": 5}]}, "tools[0].parameters"),
        ({"input": []}, "input"),
        ({"input": [{"type": "custom_tool_call"}]}, "input"),
    ],
)
def test_what_is_wrong_is_named_as_the_client_wrote_it(fields: Any, param: str) -> None:
    with pytest.raises(ApiError) as refused:
        chat(**fields)

    assert (refused.value.status, refused.value.body["param"]) == (400, param)


@pytest.mark.parametrize(
    ("there", "here"),
    [
        ("messages[3].content", "input"),
        ("max_completion_tokens", "max_output_tokens"),
        ("response_format.json_schema.schema.type", "text.format.schema.type"),
        ("response_format.type", "text.format.type"),
        ("reasoning_effort", "reasoning.effort"),
        ("tool_choice.function.name", "tool_choice"),
        ("temperature", "temperature"),
    ],
)
def test_errors_of_the_chats_fields_name_the_responses_fields(there: str, here: str) -> None:
    with pytest.raises(ApiError) as refused, in_words_of(NAMES):
        raise wrong(there, "is wrong")

    assert refused.value.body["param"] == here
    assert str(refused.value) == f"{here}: is wrong"


def test_an_error_without_a_field_stays_as_it_is() -> None:
    with pytest.raises(ApiError) as refused, in_words_of(NAMES):
        raise ApiError(503, "later")

    assert refused.value.body["param"] is None


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"conversation": "conv_1"}, "conversation"),
        ({"context_management": [{"type": "compaction"}]}, "context_management"),
        ({"prompt": {"id": "p"}}, "prompt"),
        ({"background": True, "store": False}, "background"),
    ],
)
def test_what_is_not_here_is_refused(fields: Any, param: str) -> None:
    with pytest.raises(ApiError) as refused:
        check(asked(**fields))

    assert (refused.value.status, refused.value.body["param"]) == (400, param)


def test_counting_takes_a_conversation_alone() -> None:
    body = TokensRequest.model_validate({"model": "m", "input": "hello", "max_output_tokens": "no number here"})

    check(body)

    assert chat_body(body, kept_items(body.input, find=nowhere)).messages[0].content == "hello"


def test_an_answer_repeats_what_was_asked_and_the_defaults_of_what_was_not() -> None:
    echo = echo_of(asked())

    assert (echo["temperature"], echo["top_p"], echo["tool_choice"], echo["tools"]) == (1.0, 1.0, "auto", [])
    assert (echo["store"], echo["background"], echo["metadata"], echo["truncation"]) == (True, False, {}, "disabled")
    assert echo["text"] == {"format": {"type": "text"}, "verbosity": "medium"}
    assert echo["reasoning"] == {"effort": None, "summary": None}


def test_what_was_asked_is_repeated_as_it_was() -> None:
    format = {"type": "json_schema", "name": "n", "schema": SCHEMA, "strict": True}
    echo = echo_of(
        asked(
            tools=[FUNCTION],
            tool_choice={"type": "function", "name": "add"},
            text={"format": format, "verbosity": "low"},
            store=False,
            metadata={"a": "b"},
            reasoning={"effort": "high"},
            user="u",
            temperature=0.0,
        )
    )

    assert (echo["tools"], echo["tool_choice"]) == ([FUNCTION], {"type": "function", "name": "add"})
    assert echo["text"] == {"format": format, "verbosity": "low"}
    assert (echo["store"], echo["metadata"], echo["user"], echo["temperature"]) == (False, {"a": "b"}, "u", 0.0)
    assert echo["reasoning"]["effort"] == "high"
