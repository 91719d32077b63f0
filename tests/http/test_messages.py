"""Anthropic's Messages, whole and streamed, and their refusals, as clients read them."""

from typing import Any

import orjson
import pytest

from engine.errors import ChatTemplateFailed, EngineError, GrammarRefused, QueueFull, SlowReader, StepFailed
from engine.request import Syntax
from server.recorder import Endpoint, Outcome
from tests.fakes import CONTEXT, FakeEngine, FakeTokenizer, Script, make_service, make_settings
from tests.http.clients import client_of, frames_of

Body = dict[str, Any]
MESSAGES, COUNT = "/v1/messages", "/v1/messages/count_tokens"
pytestmark = pytest.mark.anyio


def body(**fields: object) -> Body:
    return {"model": "org/tiny", "messages": [{"role": "user", "content": "hello"}], "max_tokens": 30, **fields}


def saying(text: str, **fields: Any) -> FakeEngine:
    """An engine that says this and ends."""
    return FakeEngine(script=lambda _request, _choice: Script(text, ends=True, **fields))


async def whole(asked: Body, *, engine: FakeEngine | None = None, tokenizer: FakeTokenizer | None = None) -> Body:
    async with client_of(make_service(engine, tokenizer)) as client:
        answer = await client.post(MESSAGES, json=asked)
    assert answer.status_code == 200, answer.text
    result: Body = answer.json()
    return result


async def events(asked: Body, *, engine: FakeEngine | None = None) -> list[Body]:
    async with client_of(make_service(engine)) as client:
        answer = await client.post(MESSAGES, json={**asked, "stream": True})
    assert answer.status_code == 200, answer.text
    frames = frames_of(answer.text)
    bodies: list[Body] = [orjson.loads(frame["data"]) for frame in frames]
    assert [frame["event"] for frame in frames] == [event["type"] for event in bodies]
    return bodies


def assembled(told: list[Body]) -> Body:
    """The message that a client makes of a stream's events."""
    message: Body = told[0]["message"]
    for event in told:
        match event["type"]:
            case "content_block_start":
                assert event["index"] == len(message["content"])
                message["content"].append(event["content_block"])
            case "content_block_delta":
                message["content"][event["index"]]["text"] += event["delta"]["text"]
            case "message_delta":
                message |= event["delta"]
                message["usage"] |= event["usage"]
    return message


async def test_a_whole_answer_has_every_key() -> None:
    said = await whole(body(), engine=saying("Hi 日本", cached_tokens=3))

    assert said["id"].startswith("msg")
    assert said["content"] == [{"type": "text", "text": "Hi 日本", "citations": None}]
    assert (said["type"], said["role"], said["model"]) == ("message", "assistant", "org/tiny")
    assert (said["stop_reason"], said["stop_sequence"]) == ("end_turn", None)
    assert said["usage"]["input_tokens"] == 2
    assert said["usage"]["cache_read_input_tokens"] == 3
    assert said["usage"]["output_tokens"] == 10  # the end's own token is counted


@pytest.mark.parametrize(
    ("fields", "reason", "sequence"),
    [
        ({}, "end_turn", None),
        ({"max_tokens": 2}, "max_tokens", None),
        ({"stop_sequences": ["xx", "本"]}, "stop_sequence", "本"),
        ({"temperature": 0.5, "top_p": 0.5, "top_k": 5}, "end_turn", None),
    ],
)
async def test_streamed_and_whole_are_the_same_answer(fields: Body, reason: str, sequence: str | None) -> None:
    engine = saying("Hi 👋🏽 日本", cached_tokens=2)

    said = await whole(body(**fields), engine=engine)
    told = await events(body(**fields), engine=engine)

    assert (said["stop_reason"], said["stop_sequence"]) == (reason, sequence)
    assert assembled(told) == said | {"id": told[0]["message"]["id"]}
    assert [event["type"] for event in told[:3]] == ["message_start", "ping", "content_block_start"]
    assert [event["type"] for event in told[-3:]] == ["content_block_stop", "message_delta", "message_stop"]


async def test_the_prompt_is_the_chats() -> None:
    engine, tokenizer = FakeEngine(), FakeTokenizer()
    blocks = [{"type": "text", "text": "hel", "cache_control": {"type": "ephemeral"}}, {"type": "text", "text": "lo"}]
    system = [{"type": "text", "text": "x-anthropic-billing-header: 1"}, {"type": "text", "text": "Be brief."}]

    await whole(body(messages=[{"role": "user", "content": blocks}], system=system), engine=engine, tokenizer=tokenizer)
    async with client_of(make_service(engine)) as client:
        chat = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "hello"}]
        await client.post("/v1/chat/completions", json={"model": "org/tiny", "messages": chat})

    ours, chats = engine.requests
    assert ours.prompt == chats.prompt
    assert tokenizer.calls[0]["messages"] == chat
    assert tokenizer.calls[0]["add_generation_prompt"]


async def test_an_answer_that_has_begun_goes_on() -> None:
    tokenizer = FakeTokenizer()
    begun = [{"role": "user", "content": "count"}, {"role": "assistant", "content": "one,"}]

    await whole(body(messages=begun), tokenizer=tokenizer)

    assert tokenizer.calls[0]["continue_final_message"]
    assert not tokenizer.calls[0]["add_generation_prompt"]


async def test_what_asks_for_nothing_here_and_what_is_unknown_is_accepted() -> None:
    engine = FakeEngine()

    await whole(
        body(
            metadata={"user_id": "u"},
            service_tier="auto",
            container="c",
            cache_control={"type": "ephemeral"},
            thinking={"type": "enabled", "budget_tokens": 2048},
            tools=[],
            tool_choice={"type": "auto"},
            stop_sequences=[],
            context_management={"edits": []},
            mcp_servers=[],
            betas=["x"],
            inference_geo="eu",
            output_config={"effort": "high"},
            system=None,
            temperature=None,
            foo=1,
        ),
        engine=engine,
    )

    [request] = engine.requests
    assert request.prompt == tuple(b"hello")
    assert request.stopping.max_tokens == 30


async def test_tokens_are_counted_as_the_prompt_will_have_them() -> None:
    asked = body(system="Be brief.")
    said = await whole(asked)
    del asked["max_tokens"]

    async with client_of(make_service()) as client:
        counted = await client.post(COUNT, json=asked)
        short = await client.post("/messages/count_tokens", json=asked)
        wrong = await client.post(COUNT, json={"model": "org/tiny", "messages": []})

    assert counted.json() == short.json() == {"input_tokens": said["usage"]["input_tokens"]}
    assert wrong.json()["error"]["message"].startswith("messages: ")


SCHEMA = {"type": "object", "properties": {"height": {"type": "number"}}}


async def test_an_answer_follows_the_schema_that_it_is_asked_for() -> None:
    engine = FakeEngine()
    output = {"format": {"type": "json_schema", "schema": SCHEMA}}

    await whole(body(output_config=output), engine=engine)

    [request] = engine.requests
    assert request.grammar is not None
    assert (request.grammar.syntax, orjson.loads(request.grammar.source)) == (Syntax.JSON_SCHEMA, SCHEMA)


async def test_a_schema_that_can_not_be_followed_is_400_and_named() -> None:
    engine = FakeEngine(grammar_refusal=GrammarRefused(syntax="JSON schema", reason="no such type"))

    error = await refused(
        body(output_config={"format": {"type": "json_schema", "schema": {"type": "objekt"}}}), engine=engine
    )

    assert error["message"] == "output_config.format.schema: the JSON schema can't be used: no such type"


async def refused(asked: object, *, engine: FakeEngine | None = None, status: int = 400) -> Body:
    """The error that answers, whole and streamed alike; nothing runs."""
    engine = engine or FakeEngine()
    async with client_of(make_service(engine)) as client:
        answer = await client.post(MESSAGES, json=asked)
        streamed = await client.post(MESSAGES, json={**asked, "stream": True}) if isinstance(asked, dict) else answer
    assert answer.status_code == streamed.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/json"
    assert streamed.json()["error"] == answer.json()["error"]
    assert len(answer.content) <= 4096
    told: Body = answer.json()
    assert set(told) == {"type", "error", "request_id"}
    assert set(told["error"]) == {"type", "message"}
    assert told["request_id"] == answer.headers["request-id"] == answer.headers["x-request-id"]
    assert engine.opened == []
    error: Body = told["error"]
    return error


def user(*blocks: object) -> Body:
    return {"messages": [{"role": "user", "content": [*blocks]}]}


WRONG: list[tuple[Body, str]] = [
    ({"model": None}, "model"),
    ({"max_tokens": None}, "max_tokens"),
    ({"max_tokens": 0}, "max_tokens"),
    ({"max_tokens": True}, "max_tokens"),
    ({"max_tokens": 1.0}, "max_tokens"),
    ({"temperature": 1.1}, "temperature"),
    ({"temperature": -0.1}, "temperature"),
    ({"top_p": 0}, "top_p"),
    ({"top_k": -1}, "top_k"),
    ({"top_k": "5"}, "top_k"),
    ({"stop_sequences": "x"}, "stop_sequences"),
    ({"stop_sequences": ["a", ""]}, "stop_sequences[1]"),
    ({"stop_sequences": ["a"] * 17}, "stop_sequences"),
    ({"system": 5}, "system"),
    ({"system": [{"type": "image"}]}, "system[0]"),
    ({"system": [{"type": "text"}]}, "system[0].text"),
    ({"messages": []}, "messages"),
    ({"messages": "hi"}, "messages"),
    ({"messages": ["hi"]}, "messages[0]"),
    ({"messages": [{"role": "tool", "content": "hi"}]}, "messages[0].role"),
    ({"messages": [{"role": "user"}]}, "messages[0].content"),
    ({"messages": [{"role": "user", "content": None}]}, "messages[0].content"),
    (user(), "messages[0].content"),
    (user("hi"), "messages[0].content[0]"),
    (user({"text": "hi"}), "messages[0].content[0]"),
    (user({"type": "riddle"}), "messages[0].content[0]"),
    (user({"type": ["text"]}), "messages[0].content[0]"),
    (user({"type": "text", "text": "a"}, {"type": "image", "source": {}}), "messages[0].content[1]"),
    (user({"type": "document", "source": {}}), "messages[0].content[0]"),
    (user({"type": "tool_result"}), "messages[0].content[0].tool_use_id"),
    (
        user({"type": "tool_result", "tool_use_id": "a", "content": [{"type": "image"}]}),
        "messages[0].content[0].content[0]",
    ),
    (user({"type": "tool_use", "id": "a", "name": "f", "input": {}}), "messages[0].content[0].type"),
    (user({"type": "tool_use", "id": "a", "name": "f", "input": "{}"}), "messages[0].content[0].input"),
    ({"tools": "x"}, "tools"),
    ({"tools": [5]}, "tools[0]"),
    ({"tools": [{"name": "f"}]}, "tools[0].input_schema"),
    ({"tools": [{"name": "f", "input_schema": "{}"}]}, "tools[0].input_schema"),
    ({"tool_choice": "auto"}, "tool_choice"),
    ({"tool_choice": {"type": "required"}}, "tool_choice.type"),
    ({"tool_choice": {"type": "tool"}}, "tool_choice.name"),
    ({"tool_choice": {"type": "any"}}, "tool_choice"),
    ({"thinking": {"type": 5}}, "thinking.type"),
    ({"thinking": True}, "thinking"),
    ({"output_config": {"format": {"type": "json_schema"}}}, "output_config.format.schema"),
    ({"chat_template": "{{ 1 }}"}, "chat_template"),
    ({"chat_template_kwargs": {"chat_template": "{{ 1 }}"}}, "chat_template_kwargs.chat_template"),
]


@pytest.mark.parametrize(("fields", "param"), WRONG)
async def test_a_wrong_field_is_400_and_named(fields: Body, param: str) -> None:
    error = await refused(body(**fields))

    assert error["type"] == "invalid_request_error"
    assert error["message"].startswith(f"{param}: ")


async def test_stream_is_a_boolean() -> None:
    async with client_of(make_service()) as client:
        answer = await client.post(MESSAGES, json=body(stream=1))

    assert answer.json()["error"]["message"].startswith("stream: ")


async def test_an_unknown_model_is_404_and_the_served_ones_are_listed() -> None:
    error = await refused(body(model="claude-x"), status=404)

    assert error["type"] == "not_found_error"
    assert "org/tiny, gpt-4o" in error["message"]


async def test_a_prompt_that_leaves_no_room_is_400_with_both_numbers() -> None:
    error = await refused(body(messages=[{"role": "user", "content": "x" * (CONTEXT + 1)}]))

    assert error["message"].startswith("prompt is too long: ")
    assert str(CONTEXT) in error["message"]
    assert str(CONTEXT + 1) in error["message"]


async def test_an_error_never_repeats_what_was_sent() -> None:
    secret = "s3cret" * 1_000

    for fields in (
        {"messages": [{"role": secret, "content": "x"}]},
        user({"type": secret}),
        user({"type": f"{secret}_tool_result"}),
        {"tool_choice": {"type": secret}},
        {"system": [{"type": secret}]},
        {"temperature": secret},
    ):
        assert "s3cret" not in orjson.dumps(await refused(body(**fields))).decode()


@pytest.mark.parametrize("content", [b"[]", b'"x"', b"{:", b"", b"null", b"[" * 100_000])
@pytest.mark.parametrize("path", [MESSAGES, COUNT])
async def test_a_body_that_is_no_json_object_is_400_in_the_envelope(path: str, content: bytes) -> None:
    async with client_of(make_service()) as client:
        answer = await client.post(path, content=content, headers={"content-type": "application/json"})

    assert answer.status_code == 400
    assert answer.json()["error"]["type"] == "invalid_request_error"


async def test_whatever_refuses_a_request_does_it_in_the_envelope() -> None:
    service = make_service(settings=make_settings(max_body_bytes=1024, api_keys=("key",)))
    key = {"x-api-key": "key"}

    async with client_of(service) as client:
        answers = {
            "authentication_error": await client.post(MESSAGES, json=body()),
            "request_too_large": await client.post(MESSAGES, json=body(system="x" * 2_000), headers=key),
            "not_found_error": await client.get("/v1/messages/batches", headers=key),
        }
        wrong_method = await client.get(MESSAGES, headers=key)
        wrong_type = await client.post(MESSAGES, content=b"{}", headers=key | {"content-type": "text/plain"})
        page = await client.post(MESSAGES, content=b"{}", headers=key | {"origin": "http://localhost"})
        by_bearer = await client.post(MESSAGES, json=body(), headers={"authorization": "Bearer key"})
        by_key = await client.post(MESSAGES, json=body(), headers=key | {"anthropic-beta": "tools-2024-04-04"})

    assert {kind: answer.json()["error"]["type"] for kind, answer in answers.items()} == {k: k for k in answers}
    assert [answer.status_code for answer in answers.values()] == [401, 413, 404]
    assert answers["authentication_error"].json()["request_id"]
    for status, answer in ((405, wrong_method), (415, wrong_type), (415, page)):
        assert (answer.status_code, answer.json()["error"]["type"]) == (status, "invalid_request_error")
    assert wrong_method.headers["allow"] == "POST"
    assert (by_bearer.status_code, by_key.status_code) == (200, 200)


async def test_what_passes_says_when_to_come_back() -> None:
    full = FakeEngine(refusal=QueueFull(waiting=1, limit=1, retry_after_seconds=7))
    dead = make_service()
    dead.fail()

    async with client_of(make_service(full)) as client:
        busy = await client.post(MESSAGES, json=body())
    async with client_of(dead) as client:
        gone = await client.post(MESSAGES, json=body())

    assert (busy.status_code, busy.json()["error"]["type"]) == (429, "rate_limit_error")
    assert busy.headers["retry-after"] == "7"
    assert (gone.status_code, gone.json()["error"]["type"]) == (503, "overloaded_error")
    assert "retry-after" in gone.headers


async def test_a_failing_template_is_the_clients_400() -> None:
    service = make_service(tokenizer=FakeTokenizer(failure=ChatTemplateFailed("roles must alternate")))

    async with client_of(service) as client:
        answer = await client.post(MESSAGES, json=body())
        counted = await client.post(COUNT, json=body())

    assert answer.status_code == counted.status_code == 400
    assert "roles must alternate" in answer.json()["error"]["message"]


async def test_a_failure_within_a_stream_is_its_last_event() -> None:
    failures: dict[str, EngineError] = {
        "api_error": StepFailed(request_id="x", cause="boom"),
        "invalid_request_error": SlowReader(limit_seconds=1),
    }

    for kind, failure in failures.items():
        told = await events(body(), engine=saying("abc", failure=failure, failure_at=2))

        assert told[-1]["type"] == "error"
        assert told[-1]["error"]["type"] == kind
        assert told[-1]["request_id"].startswith("req_")
        assert "message_stop" not in [event["type"] for event in told]


async def test_an_unexpected_failure_is_500_in_the_envelope() -> None:
    broken = FakeEngine(script=lambda _request, _choice: 1 / 0)  # type: ignore[arg-type,return-value]  # breaks

    async with client_of(make_service(broken)) as client:
        answer = await client.post(MESSAGES, json=body())

    assert answer.status_code == 500
    assert answer.json()["error"] == {"type": "api_error", "message": "the server failed on this request"}
    assert answer.json()["request_id"] == answer.headers["request-id"]


async def test_each_answer_is_counted_as_a_message() -> None:
    service = make_service()

    async with client_of(service) as client:
        await client.post(MESSAGES, json=body())
        await client.post(MESSAGES, json=body(stream=True))
        await client.post(MESSAGES, json=body(max_tokens=0))

    totals = service.requests.view().totals
    assert totals[Endpoint.MESSAGES, Outcome.FINISHED] == 2
    assert totals[Endpoint.MESSAGES, Outcome.REFUSED] == 1
