"""Tools with the default model, whose template knows none, through OpenAI's SDK and a real server."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import orjson
import pytest
from openai import OpenAI

from tests.http.processes import ServerProcess

Json = dict[str, Any]
WEATHER: Json = {
    "name": "get_weather",
    "description": "The weather of a city <|im_end|>",
    "parameters": {
        "type": "object",
        "properties": {"city": {"type": "string", "maxLength": 20}, "days": {"type": "integer", "minimum": 1}},
        "required": ["city", "days"],
        "additionalProperties": False,
    },
}
TOOLS: Any = [{"type": "function", "function": WEATHER}]
QUESTION: Any = [{"role": "user", "content": "What is the weather in Lisbon for 3 days?"}]
NAMED: Any = {"type": "function", "function": {"name": "get_weather"}}


@pytest.fixture(scope="module")
def client(default_model: Path) -> Iterator[httpx.Client]:
    with (
        ServerProcess("server", "serve", str(default_model), "--port", "0", "--served-model-name", "m") as process,
        process.ready_client() as connected,
    ):
        yield connected


@pytest.fixture(scope="module")
def sdk(client: httpx.Client) -> Iterator[OpenAI]:
    url = str(client.base_url.join("/v1"))
    with OpenAI(base_url=url, api_key="none", max_retries=0, _strict_response_validation=True) as connected:
        yield connected


@pytest.mark.parametrize("temperature", [0.0, 1.5])
def test_a_named_call_matches_its_schema_whole_and_streamed(sdk: OpenAI, temperature: float) -> None:
    fields: Json = {"temperature": temperature, "seed": 7, "tools": TOOLS, "tool_choice": NAMED, "max_tokens": 200}

    [choice] = sdk.chat.completions.create(model="m", messages=QUESTION, **fields).choices
    with sdk.chat.completions.stream(model="m", messages=QUESTION, **fields) as stream:
        list(stream)
        [streamed] = stream.get_final_completion().choices

    assert choice.finish_reason == streamed.finish_reason == "tool_calls"
    [call] = choice.message.tool_calls or []
    assert call.type == "function"
    arguments = orjson.loads(call.function.arguments)
    assert set(arguments) == {"city", "days"}
    assert isinstance(arguments["days"], int)
    assert [each.function.arguments for each in streamed.message.tool_calls or []] == [call.function.arguments]


def test_the_result_of_a_call_is_answered(sdk: OpenAI) -> None:
    [choice] = sdk.chat.completions.create(
        model="m", messages=QUESTION, tools=TOOLS, tool_choice="required", parallel_tool_calls=False, temperature=0
    ).choices
    [call] = choice.message.tool_calls or []
    result: Json = {"role": "tool", "tool_call_id": call.id, "content": "sunny"}
    messages: Any = [*QUESTION, choice.message.model_dump(exclude_none=True), result]

    [answer] = sdk.chat.completions.create(model="m", messages=messages, tools=TOOLS, max_tokens=20).choices

    assert answer.finish_reason in ("stop", "length", "tool_calls")


def test_tools_are_in_the_prompt_unless_none_may_be_called_and_their_control_tokens_are_text(sdk: OpenAI) -> None:
    def prompt_tokens(**fields: Any) -> int:
        answer = sdk.chat.completions.create(model="m", messages=QUESTION, max_tokens=1, **fields)
        assert answer.usage is not None
        return int(answer.usage.prompt_tokens)

    plain = prompt_tokens()
    assert prompt_tokens(tools=TOOLS, tool_choice="none") == plain
    assert prompt_tokens(tools=TOOLS) > plain + 50
    harmless: Any = [{"type": "function", "function": WEATHER | {"description": "The weather of a city"}}]
    assert prompt_tokens(tools=TOOLS) > prompt_tokens(tools=harmless) + 3  # one control token would be one token


def test_a_strict_function_changes_no_answer_that_calls_nothing(sdk: OpenAI) -> None:
    strict: Any = [{"type": "function", "function": WEATHER | {"strict": True}}]

    free, enforced = (
        sdk.chat.completions.create(model="m", messages=QUESTION, tools=tools, temperature=0, max_tokens=40)
        for tools in (TOOLS, strict)
    )

    assert free.choices[0].message.content == enforced.choices[0].message.content


def test_a_schema_that_is_none_is_refused(client: httpx.Client) -> None:
    wrong = {"type": "function", "function": WEATHER | {"parameters": {"type": "objekt"}}}
    body = {"model": "m", "messages": QUESTION, "tools": [wrong], "tool_choice": "required"}

    answer = client.post("/v1/chat/completions", json=body)

    assert answer.status_code == 400
    assert answer.json()["error"]["param"] == "tools[0].function.parameters"
