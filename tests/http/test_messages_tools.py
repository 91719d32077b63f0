"""Calls of tools, reasoning and schemas in Messages, as clients and Anthropic's own SDK read them."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import orjson
import pytest
from anthropic import AsyncAnthropic, beta_async_tool

from engine.request import Request
from server.service import Service
from tests.fakes import INFO, FakeEngine, FakeTokenizer, Script, make_service
from tests.http.clients import client_of, frames_of, listening

Json = dict[str, Any]
MESSAGES = "/v1/messages"
LOOK: Json = {"name": "look", "input_schema": {"type": "object", "properties": {"at": {"type": "string"}}}}
TOOLS = [
    LOOK,
    {"name": "go", "input_schema": {"type": "object"}},
    {"type": "web_search_20250305", "name": "web_search"},
]
ONE = '<tool_call>\n{"name": "look", "arguments": {"at": "日 👋🏽"}}\n</tool_call>'
TWO = f'Let me see.\n{ONE}\n<tool_call>\n{{"name": "go", "arguments": {{}}}}\n</tool_call>'
THINKING = "{{ tools }} <think> {{ enable_thinking }}"
ROOM = replace(INFO, context_length=4096)
pytestmark = pytest.mark.anyio


def body(**fields: object) -> Json:
    asked = [{"role": "user", "content": "hello"}]
    return {"model": "org/tiny", "messages": asked, "tools": TOOLS, "max_tokens": 500, **fields}


def service(said: str | Callable[[Request], str], tokenizer: FakeTokenizer | None = None) -> Service:
    """A service whose model says this, and ends."""

    def script(request: Request, _choice: int) -> Script:
        return Script(said if isinstance(said, str) else said(request), ends=True)

    engine = FakeEngine(script=script, info=ROOM)
    return make_service(engine, tokenizer or FakeTokenizer(chat_template=THINKING))


async def whole(used: Service, asked: Json) -> Json:
    async with client_of(used) as client:
        answer = await client.post(MESSAGES, json=asked)
    assert answer.status_code == 200, answer.text
    result: Json = answer.json()
    return result


async def rebuilt(used: Service, asked: Json) -> Json:
    """The message that a client makes of a stream's events."""
    async with client_of(used) as client:
        answer = await client.post(MESSAGES, json=asked | {"stream": True})
    assert answer.status_code == 200, answer.text
    told = [orjson.loads(frame["data"]) for frame in frames_of(answer.text)]
    message: Json = told[0]["message"]
    inputs: dict[int, str] = {}
    for event in told:
        match event:
            case {"type": "content_block_start"}:
                assert event["index"] == len(message["content"])
                message["content"].append(event["content_block"])
            case {"type": "content_block_delta", "delta": {"type": "input_json_delta", "partial_json": more}}:
                inputs[event["index"]] = inputs.get(event["index"], "") + more
            case {"type": "content_block_delta", "delta": delta}:
                [(name, more)] = [(name, value) for name, value in delta.items() if name != "type"]
                message["content"][event["index"]][name] += more
            case {"type": "message_delta"}:
                message |= event["delta"]
                message["usage"] |= event["usage"]
    for index, text in inputs.items():
        message["content"][index]["input"] = object_of(text)
    return message


def object_of(text: str) -> Json:
    try:
        given = orjson.loads(text)
    except orjson.JSONDecodeError:
        return {"INVALID_JSON": text}
    assert isinstance(given, dict)
    return given


def without_ids(message: Json) -> Json:
    blocks = [{key: value for key, value in block.items() if key != "id"} for block in message["content"]]
    return {key: value for key, value in message.items() if key != "id"} | {"content": blocks}


def kinds(message: Json) -> list[str]:
    return [block["type"] for block in message["content"]]


async def test_calls_are_blocks_behind_the_text() -> None:
    said = await whole(service(TWO), body())

    assert kinds(said) == ["text", "tool_use", "tool_use"]
    assert said["content"][0]["text"] == "Let me see."
    assert [(block["name"], block["input"]) for block in said["content"][1:]] == [
        ("look", {"at": "日 👋🏽"}),
        ("go", {}),
    ]
    assert len({block["id"] for block in said["content"][1:]}) == 2
    assert (said["stop_reason"], said["stop_sequence"]) == ("tool_use", None)


SAID = [
    TWO,
    ONE,
    "no call, and 日",
    f"<think>\nhm, 日\n</think>\n\n{TWO}",
    "<think>hm</think>yes",
    "<think>only",
    '<tool_call>{"name": "other"}</tool_call> is none',
    '<tool_call>{"name": "look", "arguments": {"at": ',
    '<tool_call>{"name": "look", "arguments": {bad}}</tool_call>',
    "a <tool_call",
]


@pytest.mark.parametrize("said", SAID)
@pytest.mark.parametrize("fields", [{}, {"max_tokens": 30}, {"stop_sequences": ["ca"]}])
async def test_streamed_and_whole_are_the_same_answer(said: str, fields: Json) -> None:
    want = await whole(service(said), body(**fields))
    got = await rebuilt(service(said), body(**fields))

    assert without_ids(got) == without_ids(want)


async def test_thoughts_are_blocks_and_their_tokens_are_counted() -> None:
    said = await whole(service("<think>hm</think>yes"), body())

    assert said["content"][0] == {"type": "thinking", "thinking": "hm", "signature": ""}
    assert said["content"][1]["text"] == "yes"
    assert said["usage"]["output_tokens_details"] == {"thinking_tokens": 2}
    assert said["stop_reason"] == "end_turn"


async def test_a_call_that_is_cut_keeps_what_was_written() -> None:
    said = await whole(service(ONE), body(max_tokens=50))

    assert said["stop_reason"] == "max_tokens"
    [block] = said["content"]
    assert block["type"] == "tool_use"
    assert ONE.startswith("<tool_call>\n" + '{"name": "look", "arguments": ' + block["input"]["INVALID_JSON"])


async def test_the_template_gets_tools_calls_results_and_thoughts_as_of_a_chat() -> None:
    tokenizer = FakeTokenizer(chat_template=THINKING)
    history = [
        {"role": "user", "content": "hello"},
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "hm", "signature": ""},
                {"type": "tool_use", "id": "abc123456", "name": "look", "input": {"at": "sea"}},
            ],
        },
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "abc123456", "content": "wet"}]},
    ]

    await whole(service("ok", tokenizer), body(messages=history, thinking={"type": "disabled"}))

    [call] = tokenizer.calls
    assert call["messages"] == [
        {"role": "user", "content": "hello"},
        {
            "role": "assistant",
            "content": "",
            "reasoning_content": "hm",
            "tool_calls": [
                {"id": "abc123456", "type": "function", "function": {"name": "look", "arguments": {"at": "sea"}}}
            ],
        },
        {"role": "tool", "content": "wet", "tool_call_id": "abc123456"},
    ]
    variables = call["template_kwargs"]
    assert isinstance(variables, dict)
    assert variables["enable_thinking"] is False
    assert [tool["function"]["name"] for tool in variables["tools"]] == ["look", "go"]


async def test_tools_that_may_not_be_called_are_not_in_the_prompt() -> None:
    tokenizer = FakeTokenizer(chat_template=THINKING)

    said = await whole(service(ONE, tokenizer), body(tool_choice={"type": "none"}))

    assert tokenizer.calls[0]["template_kwargs"] == {}
    assert (kinds(said), said["stop_reason"]) == (["text"], "end_turn")


async def test_one_call_at_most_where_calls_beside_each_other_are_forbidden() -> None:
    said = await whole(service(TWO), body(tool_choice={"type": "auto", "disable_parallel_tool_use": True}))

    assert kinds(said) == ["text", "tool_use"]


@pytest.mark.parametrize(
    ("choice", "names"), [({"type": "any"}, {"look", "go"}), ({"type": "tool", "name": "look"}, {"look"})]
)
async def test_a_call_that_is_required_follows_a_grammar(choice: Json, names: set[str]) -> None:
    used = service(ONE)

    said = await whole(used, body(tool_choice=choice))

    engine = used.loaded().engine
    assert isinstance(engine, FakeEngine)
    [request] = engine.requests
    assert request.grammar is not None
    assert {name for name in ("look", "go") if name in request.grammar.source} == names
    assert (kinds(said), said["stop_reason"]) == (["tool_use"], "tool_use")


async def test_tools_of_anthropics_own_are_dropped_with_one_line(caplog: pytest.LogCaptureFixture) -> None:
    await whole(service("ok"), body())

    [record] = [record for record in caplog.records if record.message == "tools_dropped"]
    assert record.__dict__["fields"] == {"tools": 1, "kinds": "other"}


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"tools": [LOOK | {"name": ""}]}, "tools[0].name"),
        ({"tool_choice": {"type": "tool", "name": "nope"}}, "tool_choice"),
        ({"tool_choice": {"type": "any"}, "tools": TOOLS[2:]}, "tool_choice"),
    ],
)
async def test_what_is_wrong_with_tools_is_named_in_anthropics_words(fields: Json, param: str) -> None:
    async with client_of(service("ok")) as client:
        answer = await client.post(MESSAGES, json=body(**fields))

    assert answer.status_code == 400
    assert answer.json()["error"]["message"].startswith(f"{param}: ")


async def test_a_loop_of_the_sdk_runs_its_tools_until_the_answer() -> None:
    seen: list[str] = []

    @beta_async_tool
    async def look(at: str) -> str:
        """Look at something.

        Args:
            at: at what
        """
        seen.append(at)
        return f"{at} is wet"

    def said(request: Request) -> str:
        return "It is wet." if b"is wet" in bytes(request.prompt) else ONE

    async with (
        listening(service(said)) as url,
        AsyncAnthropic(base_url=url, api_key="none", max_retries=0, _strict_response_validation=True) as sdk,
    ):
        for stream in (False, True):
            runner = sdk.beta.messages.tool_runner(
                model="org/tiny",
                max_tokens=100,
                tools=[look],
                messages=[{"role": "user", "content": "hello"}],
                stream=stream,
            )
            final = await runner.until_done()
            assert final.content[0].type == "text"
            assert final.content[0].text == "It is wet."

    assert seen == ["日 👋🏽"] * 2


async def test_the_stream_helper_rebuilds_calls_and_thoughts() -> None:
    async with (
        listening(service(f"<think>hm</think>{TWO}")) as url,
        AsyncAnthropic(base_url=url, api_key="none", max_retries=0, _strict_response_validation=True) as sdk,
    ):
        asked: Any = body()
        told = await sdk.messages.create(**asked)
        async with sdk.messages.stream(**asked) as stream:
            final = await stream.get_final_message()

    blocks = [block.model_dump(exclude={"id"}) for block in told.content]
    assert [block.model_dump(exclude={"id"}) for block in final.content] == blocks
    assert [block["type"] for block in blocks] == ["thinking", "text", "tool_use", "tool_use"]
    assert final.stop_reason == told.stop_reason == "tool_use"
    assert all(block.model_fields_set == set(type(block).model_fields) for block in told.content)
