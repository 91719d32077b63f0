"""Calls of tools and reasoning in chat answers, whole and streamed, as clients read them."""

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from openai import AsyncOpenAI

from engine.errors import GrammarRefused
from engine.request import Request
from engine.text import Vocabulary
from server.service import Service
from tests.fakes import INFO, VOCABULARY, FakeEngine, FakeTokenizer, Script, make_service, make_settings
from tests.http.clients import chunks_of, client_of, listening

Json = dict[str, Any]
CHAT = "/v1/chat/completions"
LOOK: Json = {
    "type": "function",
    "function": {"name": "look", "parameters": {"type": "object", "properties": {"at": {"type": "string"}}}},
}
TOOLS = [LOOK, {"type": "function", "function": {"name": "go"}}, {"type": "web_search"}]
ONE = '<tool_call>\n{"name": "look", "arguments": {"at": "日 👋🏽"}}\n</tool_call>'
TWO = f'Let me see.\n{ONE}\n<tool_call>\n{{"name": "go", "arguments": {{}}}}\n</tool_call>'
THINKING = "{{ tools }} <think> {{ enable_thinking }}"
PLAIN = "{{ messages }}"
ROOM = replace(INFO, context_length=4096)
pytestmark = pytest.mark.anyio


def chat(**fields: object) -> Json:
    return {"model": "org/tiny", "messages": [{"role": "user", "content": "hello"}], "tools": TOOLS, **fields}


def service(said: str | Callable[[int], str], *, template: str = THINKING, **settings: object) -> Service:
    """A service whose model says this, and ends."""

    def script(_request: Request, choice: int) -> Script:
        return Script(said if isinstance(said, str) else said(choice), ends=True)

    engine = FakeEngine(script=script, info=ROOM)
    return make_service(engine, FakeTokenizer(chat_template=template), make_settings(**settings))


async def whole(service: Service, body: Json) -> Json:
    async with client_of(service) as client:
        answer = await client.post(CHAT, json=body)
    assert answer.status_code == 200, answer.text
    result: Json = answer.json()
    return result


async def chunks(service: Service, body: Json) -> list[Json]:
    async with client_of(service) as client:
        answer = await client.post(CHAT, json=body | {"stream": True, "stream_options": {"include_usage": True}})
    assert answer.status_code == 200, answer.text
    return chunks_of(answer.text)


def rebuilt(chunks: list[Json], index: int = 0) -> Json:
    """The choice that a client makes of its chunks, ids left out."""
    choices = [choice for chunk in chunks for choice in chunk["choices"] if choice["index"] == index]
    deltas = [choice["delta"] for choice in choices]
    calls: dict[int, Json] = {}
    for call in (call for delta in deltas for call in delta.get("tool_calls", [])):
        if "id" in call:
            assert set(call) == {"index", "id", "type", "function"}
            assert set(call["function"]) == {"name", "arguments"}
            assert call["function"]["arguments"] == ""
            assert call["index"] == len(calls)
            calls[call["index"]] = {"type": call["type"], **call["function"]}
        else:
            assert set(call) == {"index", "function"}
            assert set(call["function"]) == {"arguments"}
            calls[call["index"]]["arguments"] += call["function"]["arguments"]
    return {
        "content": "".join(delta.get("content", "") for delta in deltas),
        "reasoning": "".join(delta.get("reasoning_content", "") for delta in deltas),
        "calls": list(calls.values()),
        "reasons": [choice["finish_reason"] for choice in choices if choice["finish_reason"]],
        "logprobs": [entry for choice in choices if choice["logprobs"] for entry in choice["logprobs"]["content"]],
        "token_ids": [id for choice in choices for id in choice.get("token_ids", [])],
    }


def same(choice: Json) -> Json:
    """The same of a whole answer's choice."""
    message = choice["message"]
    return {
        "content": message["content"] or "",
        "reasoning": message.get("reasoning_content", ""),
        "calls": [{"type": call["type"], **call["function"]} for call in message.get("tool_calls", [])],
        "reasons": [choice["finish_reason"]],
        "logprobs": choice["logprobs"]["content"] if choice["logprobs"] else [],
        "token_ids": choice.get("token_ids", []),
    }


async def test_calls_of_a_whole_answer() -> None:
    [choice] = (await whole(service(TWO), chat()))["choices"]

    message = choice["message"]
    assert (message["content"], choice["finish_reason"]) == ("Let me see.", "tool_calls")
    assert [call["function"] for call in message["tool_calls"]] == [
        {"name": "look", "arguments": '{"at": "日 👋🏽"}'},
        {"name": "go", "arguments": "{}"},
    ]
    ids = [call["id"] for call in message["tool_calls"]]
    assert len(set(ids)) == 2
    assert all(re.fullmatch("[A-Za-z0-9]{9,}", id) for id in ids)


async def test_an_answer_of_calls_alone_has_no_content() -> None:
    [choice] = (await whole(service(ONE), chat()))["choices"]

    assert choice["message"]["content"] is None


SAID = [
    TWO,
    ONE,
    "no call, and 日",
    f"<think>\nhm, 日\n</think>\n\n{TWO}",
    "<think>hm</think>yes",
    "<think>only",
    '<tool_call>{"name": "other"}</tool_call> is none',
    '<tool_call>{"name": "look", "arguments": {"at": ',
    "a <tool_call",
]


@pytest.mark.parametrize("said", SAID)
@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"logprobs": True, "top_logprobs": 1},
        {"return_token_ids": True},
        {"return_token_ids": True, "logprobs": True},
        {"max_tokens": 30},
        {"stop": "ca"},
    ],
)
async def test_streamed_and_whole_are_the_same_answer(said: str, fields: Json) -> None:
    want = await whole(service(said), chat(**fields))
    got = await chunks(service(said), chat(**fields))

    assert rebuilt(got) == same(want["choices"][0])
    assert got[-1]["usage"] == want["usage"]


async def test_arguments_are_streamed_as_they_come() -> None:
    got = await chunks(service(ONE), chat())

    deltas = [choice["delta"] for chunk in got for choice in chunk["choices"]]
    calls = [delta["tool_calls"] for delta in deltas if "tool_calls" in delta]
    assert len(calls) >= 10
    assert all(len(call) == 1 for call in calls)


async def test_a_reason_is_about_calls_unless_the_room_ran_out() -> None:
    cut = await chunks(service(ONE), chat(max_tokens=55))
    stopped = await chunks(service(f"{ONE} END"), chat(stop="END"))

    assert rebuilt(cut)["reasons"] == ["length"]
    assert rebuilt(cut)["calls"][0]["name"] == "look"
    assert rebuilt(stopped)["reasons"] == ["tool_calls"]


async def test_logprobs_list_the_tokens_of_the_content_alone() -> None:
    said = f"<think>hm</think>\n日 so {ONE} then"

    [choice] = (await whole(service(said), chat(logprobs=True)))["choices"]

    listed = bytes(byte for entry in choice["logprobs"]["content"] for byte in entry["bytes"]).decode()
    assert listed == choice["message"]["content"] == "日 so then"


async def test_a_listed_token_tells_which_of_all_that_are_returned_it_is() -> None:
    said = f"<think>日 so</think>\n日 so {ONE} then"

    [choice] = (await whole(service(said), chat(logprobs=True, return_token_ids=True)))["choices"]
    [plain] = (await whole(service(said), chat(logprobs=True)))["choices"]

    listed = choice["logprobs"]["content"]
    indices = [entry["index"] for entry in listed]
    assert [[choice["token_ids"][index]] for index in indices] == [entry["bytes"] for entry in listed]
    assert indices == sorted(set(indices))
    assert indices[0] == len("<think>日 so</think>\n".encode())
    assert [entry.pop("index") for entry in listed] == indices
    assert plain["logprobs"]["content"] == listed


async def test_choices_are_read_apart() -> None:
    said = [TWO, "plain", f"<think>hm</think>{ONE}"]

    want = await whole(service(said.__getitem__), chat(n=3))
    got = await chunks(service(said.__getitem__), chat(n=3))

    assert [choice["finish_reason"] for choice in want["choices"]] == ["tool_calls", "stop", "tool_calls"]
    assert [rebuilt(got, index) for index in range(3)] == [same(choice) for choice in want["choices"]]


async def test_tools_reach_the_template_unless_none_may_be_called() -> None:
    tokenizer = FakeTokenizer()
    used = make_service(FakeEngine(), tokenizer)

    await whole(used, chat())
    await whole(used, chat(tool_choice="none"))

    shown, hidden = (call["template_kwargs"] for call in tokenizer.calls)
    assert isinstance(shown, dict)
    assert [tool["function"]["name"] for tool in shown["tools"]] == ["look", "go"]
    assert hidden == {}


async def test_a_call_is_text_where_none_may_be_made() -> None:
    [choice] = (await whole(service(ONE), chat(tool_choice="none")))["choices"]

    assert (choice["message"]["content"], choice["finish_reason"]) == (ONE, "stop")


async def test_a_function_that_is_not_allowed_is_not_called() -> None:
    allowed = {"mode": "auto", "tools": [{"type": "function", "function": {"name": "go"}}]}

    [choice] = (await whole(service(ONE), chat(tool_choice={"type": "allowed_tools", "allowed_tools": allowed})))[
        "choices"
    ]

    assert choice["message"]["content"] == ONE


async def test_one_call_at_most() -> None:
    [choice] = (await whole(service(TWO), chat(parallel_tool_calls=False)))["choices"]

    assert [call["function"]["name"] for call in choice["message"]["tool_calls"]] == ["look"]
    assert choice["message"]["content"] == "Let me see."


async def test_a_template_without_tools_is_told_of_them_in_text() -> None:
    tokenizer = FakeTokenizer(chat_template=PLAIN)
    engine = FakeEngine(script=lambda _request, _choice: Script(ONE, ends=True), info=ROOM)

    [choice] = (await whole(make_service(engine, tokenizer), chat()))["choices"]

    [call] = tokenizer.calls
    assert "<tool_call>" in str(call["messages"])
    assert call["template_kwargs"] == {}
    assert choice["finish_reason"] == "tool_calls"


async def test_where_no_calls_are_looked_for_they_are_text() -> None:
    [choice] = (await whole(service(ONE, tool_format="none", template=PLAIN), chat()))["choices"]

    assert choice["message"]["content"] == ONE


async def test_the_history_of_calls_reaches_the_template() -> None:
    tokenizer = FakeTokenizer()
    history = [
        {"role": "user", "content": "hello"},
        {
            "role": "assistant",
            "content": None,
            "reasoning_content": "hm",
            "tool_calls": [{"id": "a", "type": "function", "function": {"name": "look", "arguments": '{"at": "x"}'}}],
        },
        {"role": "tool", "tool_call_id": "a", "content": "dark"},
        {"role": "user", "content": "and now?"},
    ]

    await whole(make_service(FakeEngine(), tokenizer), chat(messages=history))

    messages = tokenizer.calls[0]["messages"]
    assert isinstance(messages, list)
    assert messages[1]["reasoning_content"] == "hm"
    assert messages[1]["tool_calls"][0]["function"]["arguments"] == {"at": "x"}


async def test_an_effort_reaches_the_template_and_the_clients_own_variable_goes_before_it() -> None:
    tokenizer = FakeTokenizer(chat_template=THINKING)
    used = make_service(FakeEngine(), tokenizer)

    await whole(used, chat(reasoning_effort="none", tools=None))
    await whole(used, chat(reasoning_effort="none", tools=None, chat_template_kwargs={"enable_thinking": True}))

    assert [call["template_kwargs"] for call in tokenizer.calls] == [
        {"enable_thinking": False},
        {"enable_thinking": True},
    ]


async def test_reasoning_is_apart_from_the_answer_and_counted() -> None:
    body = await whole(service("<think>\nhm\n</think>\n\nyes"), chat(tools=None))

    message = body["choices"][0]["message"]
    assert (message["reasoning_content"], message["content"]) == ("hm", "yes")
    assert body["usage"]["completion_tokens_details"]["reasoning_tokens"] == 2
    assert body["usage"]["completion_tokens"] == len("<think>\nhm\n</think>\n\nyes") + 1


async def test_reasoning_that_the_prompt_has_begun_is_reasoning() -> None:
    messages = [{"role": "user", "content": "so <think>\n"}]

    body = await whole(service("hm</think>yes"), chat(messages=messages, tools=None))

    assert body["choices"][0]["message"]["reasoning_content"] == "hm"


async def test_reasoning_is_text_where_it_is_not_looked_for() -> None:
    body = await whole(service("<think>hm</think>yes", reasoning_format="none"), chat(tools=None))

    assert body["choices"][0]["message"]["content"] == "<think>hm</think>yes"


async def test_channels_are_read_though_there_are_no_tools() -> None:
    said = "<|channel|>analysis<|message|>hm<|end|><|start|>assistant<|channel|>final<|message|>yes"

    body = await whole(service(said, template="{{ tools }} <|channel|>"), chat(tools=None))

    message = body["choices"][0]["message"]
    assert (message["reasoning_content"], message["content"]) == ("hm", "yes")
    assert body["usage"]["completion_tokens_details"]["reasoning_tokens"] == 2


async def test_marks_that_are_special_tokens_are_read_and_others_left_out() -> None:
    marks = [b"[TOOL_CALLS]", b"[ARGS]", b"<pad>"]
    size = VOCABULARY.size
    vocabulary = Vocabulary(
        [*(VOCABULARY.bytes_of(token, skip_special=False) for token in range(size)), *marks],
        VOCABULARY.special_ids | {size, size + 1, size + 2},
    )
    engine = FakeEngine(info=ROOM, vocabulary=vocabulary)
    used = make_service(engine, FakeTokenizer(chat_template="{{ tools }} [TOOL_CALLS]"))

    await whole(used, chat(max_tokens=3))
    await whole(used, chat(max_tokens=3, tools=None))

    assert [request.shown_special_ids for request in engine.requests] == [{size, size + 1}, frozenset()]
    assert all(request.skip_special_tokens for request in engine.requests)


async def refused(service: Service, body: Json) -> Json:
    async with client_of(service) as client:
        answer = await client.post(CHAT, json=body)
    assert answer.status_code == 400, answer.text
    error: Json = answer.json()["error"]
    return error


@pytest.mark.parametrize(
    "choice",
    [
        "required",
        {"type": "function", "function": {"name": "look"}},
        {"type": "allowed_tools", "allowed_tools": {"mode": "required", "tools": [LOOK]}},
    ],
)
async def test_a_required_call_is_enforced_by_a_grammar_and_ends_with_tool_calls(choice: object) -> None:
    engine = FakeEngine(script=lambda _request, _choice: Script(ONE, ends=True), info=ROOM)
    used = make_service(engine, FakeTokenizer())

    want = await whole(used, chat(tool_choice=choice))
    got = await chunks(used, chat(tool_choice=choice))

    assert want["choices"][0]["finish_reason"] == "tool_calls"
    assert rebuilt(got) == same(want["choices"][0])
    for request in engine.requests:
        assert request.grammar is not None
        assert request.grammar in engine.grammars


async def test_a_schema_that_can_not_be_enforced_is_refused_and_the_tools_are_named() -> None:
    engine = FakeEngine(grammar_refusal=GrammarRefused(syntax="Lark grammar", reason="odd"))

    error = await refused(make_service(engine), chat(tool_choice="required"))

    assert error["param"] == "tools"
    assert not engine.opened


async def test_a_call_can_not_be_required_where_none_is_looked_for() -> None:
    error = await refused(service("", tool_format="none"), chat(tool_choice="required"))

    assert (error["param"], error["code"]) == ("tool_choice", "unsupported_parameter")


async def test_a_format_of_the_answer_leaves_room_for_calls_and_reasoning() -> None:
    format = {"response_format": {"type": "json_object"}}

    called = await whole(service(ONE), chat(**format))
    thought = await whole(service('<think>hm</think>{"a": 1}'), chat(**format))

    assert called["choices"][0]["finish_reason"] == "tool_calls"
    assert thought["choices"][0]["message"]["content"] == '{"a": 1}'
    assert thought["choices"][0]["message"]["reasoning_content"] == "hm"


async def test_free_calls_have_no_grammar_unless_a_function_is_strict() -> None:
    strict: Json = {"type": "function", "function": LOOK["function"] | {"strict": True}}
    engine = FakeEngine(script=lambda _request, _choice: Script(ONE, ends=True), info=ROOM)
    used = make_service(engine, FakeTokenizer())

    await whole(used, chat())
    await whole(used, chat(tools=[strict]))

    assert [request.grammar is None for request in engine.requests] == [True, False]


async def test_the_sdk_reads_calls_and_its_stream_helper_rebuilds_them() -> None:
    messages: Any = [{"role": "user", "content": "hello"}]
    tools: Any = TOOLS[:2]

    async with (
        listening(service(f"<think>hm</think>{TWO}")) as url,
        AsyncOpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0, _strict_response_validation=True) as sdk,
    ):
        answer = await sdk.chat.completions.create(model="org/tiny", messages=messages, tools=tools, logprobs=True)
        async with sdk.chat.completions.stream(model="org/tiny", messages=messages, tools=tools) as stream:
            events = [event async for event in stream]
            final = await stream.get_final_completion()

    calls = answer.choices[0].message.tool_calls or []
    assert [call.function.arguments for call in calls if call.type == "function"] == ['{"at": "日 👋🏽"}', "{}"]
    streamed = final.choices[0].message.tool_calls or []
    assert [(call.function.name, call.function.arguments) for call in streamed] == [
        ("look", '{"at": "日 👋🏽"}'),
        ("go", "{}"),
    ]
    assert final.choices[0].finish_reason == "tool_calls"
    done = [event for event in events if event.type == "tool_calls.function.arguments.done"]
    assert [(event.index, event.name) for event in done] == [(0, "look"), (1, "go")]


async def test_a_mark_is_never_seen_by_a_client() -> None:
    for said in SAID[:4]:
        got = await chunks(service(said), chat())
        sent = [delta for chunk in got for choice in chunk["choices"] for delta in (choice["delta"],)]
        seen = "".join(str(delta.get("content", "")) + str(delta.get("reasoning_content", "")) for delta in sent)
        assert "tool_call>" not in seen
        assert "think>" not in seen
