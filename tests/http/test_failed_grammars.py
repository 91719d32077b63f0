"""Answers whose grammar can't be followed to the end: whole and streamed, and by every endpoint that takes one."""

import json
from typing import Any

import pytest

from engine.errors import GrammarFailed, GrammarRefused
from engine.request import Request
from tests.fakes import FakeEngine, Script, make_service
from tests.http.clients import client_of, frames_of

pytestmark = pytest.mark.anyio
Body = dict[str, Any]
SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}}
CHAT = {"model": "org/tiny", "messages": [{"role": "user", "content": "hello"}], "max_tokens": 9}
CASES = [
    ("/v1/chat/completions", CHAT | {"structured_outputs": {"regex": "a+"}}, "structured_outputs.regex"),
    (
        "/v1/chat/completions",
        CHAT | {"response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": SCHEMA}}},
        "response_format.json_schema.schema",
    ),
    ("/v1/completions", {"model": "org/tiny", "prompt": "a", "guided_choice": ["a"]}, "guided_choice"),
    (
        "/v1/responses",
        {
            "model": "org/tiny",
            "input": "a",
            "text": {"format": {"type": "json_schema", "name": "x", "schema": SCHEMA}},
        },
        "text.format.schema",
    ),
    (
        "/v1/messages",
        CHAT | {"output_config": {"format": {"type": "json_schema", "schema": SCHEMA}}},
        "output_config.format.schema",
    ),
]


def failing(request: Request, _choice: int) -> Script:
    """Two tokens, and then the grammar allows nothing more."""
    assert request.grammar is not None
    return Script("ab", failure=GrammarFailed(name=request.grammar.name, reason="too many states"), failure_at=2)


def told(text: str, param: str) -> None:
    """The error says what the client knows, in its words, and nothing that it can't know."""
    assert f"{param}: nothing may follow what was said: too many states" in text
    assert "chatcmpl" not in text.partition("nothing may follow")[2]


@pytest.mark.parametrize(("path", "body", "param"), CASES)
async def test_a_whole_answer_is_400_and_names_the_field(path: str, body: Body, param: str) -> None:
    async with client_of(make_service(FakeEngine(script=failing))) as client:
        answer = await client.post(path, json=body)

    error = answer.json()["error"]
    assert answer.status_code == 400
    told(error["message"], param)
    if not path.endswith("/messages"):
        assert (error["param"], error["code"]) == (param, "grammar_failed")


@pytest.mark.parametrize(("path", "body", "param"), CASES)
async def test_a_stream_ends_with_one_event_that_says_so(path: str, body: Body, param: str) -> None:
    async with client_of(make_service(FakeEngine(script=failing))) as client:
        answer = await client.post(path, json={**body, "stream": True})

    *before, last = [frame["data"] for frame in frames_of(answer.text)]
    assert answer.status_code == 200
    told(last, param)
    assert json.loads(last)["type" if "responses" in path else "error"]
    assert not any("nothing may follow" in frame for frame in before)


LOOK = {"name": "look", "parameters": SCHEMA, "strict": True}
OTHER = {"type": "web_search"}
TOOL = {"type": "function", "function": LOOK}
TOOLS: list[tuple[str, Body, str]] = [
    ("/v1/chat/completions", CHAT | {"tools": [OTHER, TOOL]}, "tools[1].function.parameters"),
    ("/v1/chat/completions", CHAT | {"tools": [TOOL], "tool_choice": "required"}, "tools[0].function.parameters"),
    (
        "/v1/responses",
        {"model": "org/tiny", "input": "a", "tools": [{"type": "function", **LOOK}]},
        "tools[0].parameters",
    ),
    (
        "/v1/messages",
        CHAT | {"tools": [{"name": "look", "input_schema": SCHEMA}], "tool_choice": {"type": "any"}},
        "tools[0].input_schema",
    ),
]


@pytest.mark.parametrize(("path", "body", "param"), TOOLS)
@pytest.mark.parametrize("stream", [False, True])
async def test_a_tool_s_schema_that_is_refused_is_named_where_the_client_wrote_it(
    path: str, body: Body, param: str, stream: bool
) -> None:
    refusal = GrammarRefused(syntax="JSON schema", reason="it is wrong", part="tm_arguments_0")

    async with client_of(make_service(FakeEngine(grammar_refusal=refusal))) as client:
        answer = await client.post(path, json={**body, "stream": stream})

    assert answer.status_code == 400
    assert answer.json()["error"]["message"] == f"{param}: the JSON schema can't be used: it is wrong"
    if not path.endswith("/messages"):
        assert answer.json()["error"]["param"] == param
