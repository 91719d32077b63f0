"""Chat answers, whole and streamed, as clients read them."""

import json
from typing import Any

import pytest

from engine.errors import SlowReader, StepFailed
from engine.request import Request
from tests.fakes import CONTEXT, EOS, FakeEngine, FakeTokenizer, Script, make_service
from tests.http.clients import chunks_of, client_of, events_of, frames_of

Body = dict[str, Any]
CHAT = "/v1/chat/completions"
pytestmark = pytest.mark.anyio


def chat(**fields: object) -> Body:
    return {"model": "org/tiny", "messages": [{"role": "user", "content": "hello"}], **fields}


async def whole(body: Body, *, engine: FakeEngine | None = None, tokenizer: FakeTokenizer | None = None) -> Body:
    async with client_of(make_service(engine, tokenizer)) as client:
        answer = await client.post(CHAT, json=body)
    assert answer.status_code == 200, answer.text
    result: Body = answer.json()
    return result


async def chunks(body: Body, *, engine: FakeEngine | None = None) -> list[Body]:
    async with client_of(make_service(engine)) as client:
        answer = await client.post(CHAT, json={**body, "stream": True})
    assert answer.status_code == 200, answer.text
    return chunks_of(answer.text)


def saying(text: str, **fields: Any) -> FakeEngine:
    """An engine that says this and ends."""
    return FakeEngine(script=lambda _request, _choice: Script(text, ends=True, **fields))


def joined(chunks: list[Body], index: int = 0) -> Body:
    """What a client makes of a choice's chunks."""
    choices = [choice for chunk in chunks for choice in chunk["choices"] if choice["index"] == index]
    return {
        "text": "".join(choice["delta"].get("content", "") for choice in choices),
        "roles": [choice["delta"]["role"] for choice in choices if "role" in choice["delta"]],
        "reasons": [choice["finish_reason"] for choice in choices],
        "logprobs": [entry for choice in choices if choice["logprobs"] for entry in choice["logprobs"]["content"]],
        "token_ids": [token for choice in choices for token in choice.get("token_ids", [])],
    }


async def test_a_whole_answer_has_every_key() -> None:
    body = await whole(chat(), engine=saying("Hi 日本"))

    assert body["id"].startswith("chatcmpl-")
    assert (body["object"], body["created"], body["model"]) == ("chat.completion", 1_700_000_000, "org/tiny")
    assert body["system_fingerprint"].startswith("fp_")
    assert body["choices"] == [
        {
            "index": 0,
            "message": {"role": "assistant", "content": "Hi 日本", "refusal": None},
            "logprobs": None,
            "finish_reason": "stop",
            "stop_reason": None,
        }
    ]
    assert body["usage"] == {
        "prompt_tokens": 5,
        "completion_tokens": 10,  # the end's own token is counted
        "total_tokens": 15,
        "prompt_tokens_details": {"cached_tokens": 0},
        "completion_tokens_details": {
            "reasoning_tokens": 0,
            "accepted_prediction_tokens": 0,
            "rejected_prediction_tokens": 0,
        },
    }


async def test_the_chunks_of_a_choice_are_its_role_its_text_and_its_reason() -> None:
    got = await chunks(chat(), engine=saying("ab"))

    deltas = [(chunk["choices"][0]["delta"], chunk["choices"][0]["finish_reason"]) for chunk in got]
    assert deltas == [
        ({"role": "assistant", "content": ""}, None),
        ({"content": "a"}, None),
        ({"content": "b"}, None),
        ({}, "stop"),
    ]
    assert len({(chunk["id"], chunk["created"], chunk["system_fingerprint"]) for chunk in got}) == 1
    assert all(chunk["object"] == "chat.completion.chunk" for chunk in got)


async def test_the_last_text_never_shares_a_chunk_with_the_reason() -> None:
    got = await chunks(chat(max_tokens=5))

    assert joined(got)["text"] == "abcde"
    assert got[-1]["choices"][0]["delta"] == {}
    assert got[-1]["choices"][0]["finish_reason"] == "length"


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"max_tokens": 5},
        {"max_tokens": 9, "logprobs": True, "top_logprobs": 2},
        {"logprobs": True},
        {"stop": ["g"]},
        {"stop": ["efg", "xyz"], "logprobs": True},
        {"stop": "x" * 40, "max_tokens": 8},
        {"stop": ["cd"], "include_stop_str_in_output": True},
        {"stop_token_ids": [ord("d")], "logprobs": True},
        {"stop_token_ids": [ord("d")], "include_stop_str_in_output": True},
        {"min_tokens": 8, "stop": "c", "max_tokens": 20},
        {"return_token_ids": True, "max_tokens": 4},
    ],
)
@pytest.mark.parametrize("said", ["abcdefghijklmnopqrstuvwxyz", "👋🏽 日本 ď"])
async def test_streamed_and_whole_are_the_same_answer(fields: Body, said: str) -> None:
    want = await whole(chat(**fields), engine=saying(said))
    got = await chunks(chat(stream_options={"include_usage": True}, **fields), engine=saying(said))

    *answer, usage = got
    [choice] = want["choices"]
    streamed = joined(answer)
    assert streamed["text"] == choice["message"]["content"]
    assert [reason for reason in streamed["reasons"] if reason is not None] == [choice["finish_reason"]]
    assert answer[-1]["choices"][0]["stop_reason"] == choice["stop_reason"]
    assert streamed["logprobs"] == (choice["logprobs"]["content"] if choice["logprobs"] else [])
    assert streamed["token_ids"] == choice.get("token_ids", [])
    assert usage["usage"] == want["usage"]


async def test_every_chunk_has_a_finish_reason_key_and_one_has_a_reason() -> None:
    got = await chunks(chat(n=3))

    for index in range(3):
        reasons = joined(got, index)["reasons"]
        assert reasons[:-1] == [None] * (len(reasons) - 1)
        assert reasons[-1] == "length"


async def test_choices_are_numbered_and_each_has_one_role_and_one_reason() -> None:
    engine = FakeEngine(script=lambda _request, choice: Script("ABC"[choice] * 4, ends=True, cached_tokens=3 * choice))

    want = await whole(chat(n=3), engine=engine)
    got = await chunks(chat(n=3, stream_options={"include_usage": True}), engine=engine)

    assert [choice["index"] for choice in want["choices"]] == [0, 1, 2]
    for index in range(3):
        assert joined(got, index)["roles"] == ["assistant"]
        assert joined(got, index)["text"] == want["choices"][index]["message"]["content"] == "ABC"[index] * 4
    assert want["usage"]["prompt_tokens"] == 5
    assert want["usage"]["completion_tokens"] == 15
    assert want["usage"]["prompt_tokens_details"]["cached_tokens"] == 0  # as the first choice found it
    assert got[-1]["usage"] == want["usage"]


@pytest.mark.parametrize("options", [None, {}, {"include_usage": False}, {"include_usage": None}])
async def test_no_usage_is_sent_that_was_not_asked_for(options: Body | None) -> None:
    got = await chunks(chat(stream_options=options))

    assert all("usage" not in chunk for chunk in got)
    assert all(chunk["choices"] for chunk in got)


async def test_usage_that_was_asked_for_comes_last_and_alone() -> None:
    engine = FakeEngine(script=lambda _request, _choice: Script(cached_tokens=4))

    *before, last = await chunks(chat(stream_options={"include_usage": True}), engine=engine)

    assert all(chunk["usage"] is None and chunk["choices"] for chunk in before)
    assert last["choices"] == []
    assert last["usage"]["prompt_tokens_details"] == {"cached_tokens": 4}


async def test_a_stop_string_is_never_sent_and_what_only_began_like_it_is() -> None:
    got = await chunks(chat(stop=["fgh", "yx"]))
    late = await chunks(chat(stop=["x" * 40], max_tokens=8), engine=saying("x" * 30))

    assert joined(got)["text"] == "abcde"
    assert got[-1]["choices"][0]["stop_reason"] == "fgh"
    assert joined(late)["text"] == "x" * 8


async def test_a_character_in_several_tokens_is_sent_whole() -> None:
    got = await chunks(chat(), engine=saying("👋🏽 日本 ď"))

    assert joined(got)["text"] == "👋🏽 日本 ď"
    assert all("\ufffd" not in str(chunk) for chunk in got)


async def test_the_bytes_of_logprobs_are_the_tokens_own() -> None:
    body = await whole(chat(logprobs=True, top_logprobs=2), engine=saying("👋🏽 日本"))

    entries = body["choices"][0]["logprobs"]["content"]
    assert bytes(byte for entry in entries for byte in entry["bytes"]).decode() == "👋🏽 日本"
    assert body["usage"]["completion_tokens"] == len(entries) + 1  # the end's token is not listed


async def test_the_chosen_token_is_among_the_best_though_it_is_none_of_them() -> None:
    body = await whole(chat(logprobs=True, top_logprobs=2, max_tokens=1))

    [entry] = body["choices"][0]["logprobs"]["content"]
    assert (entry["token"], entry["logprob"]) == ("a", -0.5)
    assert [top["token"] for top in entry["top_logprobs"]] == ["\x00", "\x01", "a"]


async def test_logprobs_alone_list_no_others() -> None:
    body = await whole(chat(logprobs=True, max_tokens=1))

    assert body["choices"][0]["logprobs"]["content"][0]["top_logprobs"] == []


async def test_an_impossible_token_has_a_number_that_json_has() -> None:
    body = await whole(chat(logprobs=True, top_logprobs=1, max_tokens=1), engine=saying("a", logprob=float("-inf")))

    entry = body["choices"][0]["logprobs"]["content"][0]
    assert entry["logprob"] == -9999.0
    assert entry["top_logprobs"][-1]["logprob"] == -9999.0


async def test_a_token_behind_a_stop_string_is_counted_and_not_listed() -> None:
    body = await whole(chat(logprobs=True, stop=["de"]))

    assert [entry["token"] for entry in body["choices"][0]["logprobs"]["content"]] == ["a", "b", "c"]
    assert body["usage"]["completion_tokens"] == 5


async def test_token_ids_are_returned_where_they_are_asked_for() -> None:
    body = await whole(chat(return_token_ids=True), engine=saying("ab"))
    got = await chunks(chat(return_token_ids=True), engine=saying("ab"))

    assert body["prompt_token_ids"] == list(b"hello")
    assert body["choices"][0]["token_ids"] == [*b"ab", EOS]
    assert [chunk["prompt_token_ids"] for chunk in got if "prompt_token_ids" in chunk] == [list(b"hello")]


async def test_the_model_is_echoed_as_it_was_asked_for() -> None:
    assert (await whole(chat(model="gpt-4o")))["model"] == "gpt-4o"
    assert (await chunks(chat(model="gpt-4o")))[0]["model"] == "gpt-4o"


async def test_the_newer_limit_wins_and_no_limit_is_the_rest_of_the_context() -> None:
    newer = await whole(chat(max_completion_tokens=3, max_tokens=9))
    larger = await whole(chat(max_completion_tokens=9, max_tokens=3))
    absent = await whole(chat())
    huge = await whole(chat(max_tokens=10**9))

    counts = [body["usage"]["completion_tokens"] for body in (newer, larger, absent, huge)]
    assert counts == [3, 9, CONTEXT - 5, CONTEXT - 5]


async def test_what_asks_for_nothing_and_what_is_unknown_is_accepted() -> None:
    engine = FakeEngine()

    await whole(
        chat(
            foo=1,
            tools=[],
            tool_choice="none",
            parallel_tool_calls=True,
            response_format={"type": "text"},
            prediction={"type": "content", "content": "abc"},
            modalities=["text"],
            reasoning_effort="high",
            verbosity="low",
            metadata={"a": "b"},
            user="u",
            store=True,
            service_tier="auto",
            prompt_cache_key="k",
            safety_identifier="s",
            functions=[],
            function_call="none",
            audio=None,
            logprobs=False,
            top_logprobs=0,
            guided_json=None,
            background=False,
            truncate_prompt_tokens=5,
            echo=False,
            chat_template=None,
        ),
        engine=engine,
    )
    await whole(chat(tool_choice="auto"), engine=engine)
    await whole(chat(tool_choice="none", tools=[{"type": "function", "function": {"name": "f"}}]), engine=engine)

    assert {request.prompt for request in engine.requests} == {tuple(b"hello")}


async def test_every_null_is_the_same_as_absent() -> None:
    # fmt: off
    names = [
        "max_tokens", "max_completion_tokens", "temperature", "top_p", "n", "seed", "stop", "logit_bias",
        "presence_penalty", "frequency_penalty", "logprobs", "top_logprobs", "stream", "stream_options", "tools",
        "tool_choice", "response_format", "top_k", "min_p", "repetition_penalty", "min_tokens", "ignore_eos",
        "stop_token_ids", "include_stop_str_in_output", "skip_special_tokens", "chat_template_kwargs",
        "continue_final_message", "add_generation_prompt", "cache_salt", "priority", "return_token_ids",
        "modalities", "prediction",
    ]
    # fmt: on
    engine = FakeEngine()

    await whole(chat(**(dict.fromkeys(names) | {"max_completion_tokens": 5})), engine=engine)
    await whole(chat(max_tokens=5), engine=engine)

    given, absent = engine.requests
    assert (given.stopping, given.num_choices, given.top_logprobs) == (absent.stopping, 1, None)


async def test_fields_reach_the_engine() -> None:
    engine = FakeEngine()

    await whole(
        chat(
            temperature=0,
            top_p=0.5,
            top_k=7,
            min_p=0.1,
            presence_penalty=1,
            frequency_penalty=-1,
            repetition_penalty=1.5,
            seed=-1,
            n=2,
            logit_bias={"97": 5, "98": -2.5},
            stop=["x", "y"],
            stop_token_ids=[3],
            min_tokens=2,
            max_tokens=4,
            logprobs=True,
            top_logprobs=3,
            skip_special_tokens=False,
            cache_salt="mine",
            priority=-2,
        ),
        engine=engine,
    )

    [request] = engine.requests
    sampling, stopping = request.sampling, request.stopping
    assert (sampling.temperature, sampling.top_p, sampling.top_k, sampling.min_p) == (0.0, 0.5, 7, 0.1)
    assert (sampling.presence_penalty, sampling.frequency_penalty, sampling.repetition_penalty) == (1.0, -1.0, 1.5)
    assert sampling.seed == 2**64 - 1
    assert sampling.logit_bias == ((97, 5.0), (98, -2.5))
    assert (stopping.strings, stopping.token_ids, stopping.eos_ids) == (("x", "y"), frozenset({3}), frozenset({EOS}))
    assert (stopping.min_tokens, stopping.max_tokens) == (2, 4)
    assert (request.num_choices, request.top_logprobs, request.prompt_logprobs) == (2, 3, None)
    assert (request.skip_special_tokens, request.salt, request.priority) == (False, "mine", -2)


async def test_a_seed_that_is_left_out_is_a_new_one_each_time() -> None:
    engine = FakeEngine()

    for _ in range(3):
        await whole(chat(), engine=engine)

    assert len({request.sampling.seed for request in engine.requests}) == 3


async def test_ignoring_the_end_leaves_no_end() -> None:
    engine = FakeEngine()

    await whole(chat(ignore_eos=True, max_tokens=3), engine=engine)

    assert engine.requests[0].stopping.eos_ids == frozenset()


async def test_the_templates_own_options_reach_it() -> None:
    tokenizer = FakeTokenizer()
    turns = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]

    await whole(chat(), tokenizer=tokenizer)
    await whole(chat(messages=turns, continue_final_message=True), tokenizer=tokenizer)
    await whole(chat(add_generation_prompt=False, chat_template_kwargs={"thinking": False}), tokenizer=tokenizer)

    options = [(c["add_generation_prompt"], c["continue_final_message"], c["template_kwargs"]) for c in tokenizer.calls]
    assert options == [(True, False, {}), (False, True, {}), (False, False, {"thinking": False})]


def failing(failure: StepFailed | SlowReader, *, at: int) -> FakeEngine:
    def script(_request: Request, choice: int) -> Script:
        return Script(failure=failure if choice == 0 else None, failure_at=at)

    return FakeEngine(script=script)


@pytest.mark.parametrize("at", [0, 3])
@pytest.mark.parametrize("n", [1, 2])
async def test_a_failure_within_a_stream_is_an_event_and_the_end(at: int, n: int) -> None:
    engine = failing(StepFailed(request_id="r", cause="boom"), at=at)

    async with client_of(make_service(engine)) as client:
        answer = await client.post(CHAT, json=chat(stream=True, n=n))

    last = events_of(answer.text)[-1]
    assert answer.status_code == 200
    assert last.startswith('{"error":{"message":')
    assert "boom" not in last
    assert "[DONE]" not in answer.text
    assert engine.opened[0].closed


async def test_a_failure_before_a_whole_answer_is_its_status() -> None:
    async with client_of(make_service(failing(StepFailed(request_id="r", cause="boom"), at=3))) as client:
        answer = await client.post(CHAT, json=chat())

    assert answer.status_code == 500
    assert answer.json()["error"]["code"] == "step_failed"
    assert "boom" not in answer.text


async def test_headers_of_a_stream() -> None:
    async with client_of(make_service()) as client:
        answer = await client.post(CHAT, json=chat(stream=True), headers={"x-request-id": "mine"})

    assert answer.headers["content-type"].startswith("text/event-stream")
    assert answer.headers["cache-control"] == "no-cache"
    assert answer.headers["x-accel-buffering"] == "no"
    assert answer.headers["x-request-id"] == "mine"


async def test_the_same_path_answers_without_its_prefix() -> None:
    async with client_of(make_service()) as client:
        answer = await client.post("/chat/completions", json=chat())

    assert answer.status_code == 200


async def test_a_prediction_reaches_the_engine_as_tokens() -> None:
    engine = FakeEngine()

    await whole(chat(prediction={"type": "content", "content": "guess"}, max_draft_tokens=3), engine=engine)
    parts = [{"type": "text", "text": "gu"}, {"type": "text", "text": "ess"}]
    await whole(chat(prediction={"type": "content", "content": parts}), engine=engine)
    await whole(chat(prediction={"type": "content", "content": "x" * 1000}), engine=engine)

    first, second, third = engine.requests
    assert (first.prediction, first.max_draft_tokens) == (tuple(b"guess"), 3)
    assert (second.prediction, second.max_draft_tokens) == (tuple(b"guess"), None)
    assert third.prediction == tuple(b"x" * engine.info.context_length)


async def test_every_event_of_a_stream_has_the_answers_id_and_its_number() -> None:
    body = chat(stream=True, stream_options={"include_usage": True}, max_tokens=3)
    async with client_of(make_service()) as client:
        answer = await client.post(CHAT, json=body)

    frames = frames_of(answer.text)
    id = json.loads(frames[0]["data"])["id"]
    assert [frame["id"] for frame in frames] == [f"{id}:{number}" for number in range(len(frames))]
    assert frames[-1]["data"] == "[DONE]"
