"""Text completions, whole and streamed, as clients read them."""

from typing import Any

import pytest

from tests.fakes import BOS, CONTEXT, FakeEngine, Script, make_service
from tests.http.clients import chunks_of, client_of

Body = dict[str, Any]
TEXT = "/v1/completions"
pytestmark = pytest.mark.anyio


def text(**fields: object) -> Body:
    return {"model": "org/tiny", "prompt": "hello", **fields}


def saying(said: str, **fields: Any) -> FakeEngine:
    return FakeEngine(script=lambda _request, _choice: Script(said, ends=True, **fields))


async def whole(body: Body, *, engine: FakeEngine | None = None) -> Body:
    async with client_of(make_service(engine)) as client:
        answer = await client.post(TEXT, json=body)
    assert answer.status_code == 200, answer.text
    result: Body = answer.json()
    return result


async def chunks(body: Body, *, engine: FakeEngine | None = None) -> list[Body]:
    async with client_of(make_service(engine)) as client:
        answer = await client.post(TEXT, json={**body, "stream": True})
    assert answer.status_code == 200, answer.text
    return chunks_of(answer.text)


def joined(chunks: list[Body], index: int) -> Body:
    """What a client makes of a choice's chunks."""
    choices = [choice for chunk in chunks for choice in chunk["choices"] if choice["index"] == index]
    listed = [choice["logprobs"] for choice in choices if choice["logprobs"]]
    columns = ("tokens", "token_logprobs", "top_logprobs", "text_offset")
    return {
        "index": index,
        "text": "".join(choice["text"] for choice in choices),
        "logprobs": {name: [entry for each in listed for entry in each[name]] for name in columns} if listed else None,
        "finish_reason": next(choice["finish_reason"] for choice in choices if choice["finish_reason"]),
        "stop_reason": choices[-1]["stop_reason"],
    } | {
        name: [token for choice in choices for token in choice.get(name, [])]
        for name in ("prompt_token_ids", "token_ids")
        if any("prompt_token_ids" in choice for choice in choices)
    }


async def test_a_whole_answer_has_every_key() -> None:
    body = await whole(text(), engine=saying("ab"))

    assert body["id"].startswith("cmpl-")
    assert (body["object"], body["model"]) == ("text_completion", "org/tiny")
    assert body["choices"] == [
        {"index": 0, "text": "ab", "logprobs": None, "finish_reason": "stop", "stop_reason": None}
    ]
    assert body["usage"]["prompt_tokens_details"] == {"cached_tokens": 0}


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"max_tokens": 0},
        {"max_tokens": 0, "echo": True},
        {"max_tokens": 0, "echo": True, "logprobs": 1},
        {"max_tokens": 0, "logprobs": 1},
        {"max_tokens": 5, "logprobs": 0},
        {"max_tokens": 5, "logprobs": 3, "echo": True},
        {"logprobs": 2, "stop": ["cde"]},
        {"echo": True, "n": 2, "logprobs": 1, "max_tokens": 2},
        {"prompt": ["a", "bc"], "n": 2, "echo": True, "logprobs": 1},
        {"prompt": [[104, 105], [106]], "max_tokens": 3},
        {"return_token_ids": True, "echo": True, "max_tokens": 2},
        {"return_token_ids": True, "max_tokens": 0},
    ],
)
@pytest.mark.parametrize("said", ["abcdefghijklmnopqrstuvwxyz", "👋🏽 日本 ď"])
async def test_streamed_and_whole_are_the_same_answer(fields: Body, said: str) -> None:
    want = await whole(text(**fields), engine=saying(said))
    *got, usage = await chunks(text(stream_options={"include_usage": True}, **fields), engine=saying(said))

    for choice in want["choices"]:
        streamed = joined(got, choice["index"])
        if choice["logprobs"] and not choice["logprobs"]["tokens"]:
            streamed["logprobs"] = choice["logprobs"]  # a stream of nothing lists nothing
        assert streamed == choice
    assert usage["choices"] == []
    assert usage["usage"] == want["usage"]


async def test_choices_of_several_prompts_are_numbered_prompt_by_prompt() -> None:
    def script(request: Any, choice: int) -> Script:
        return Script(f"{bytes(request.prompt).decode()}{choice}", ends=True, cached_tokens=1)

    engine = FakeEngine(script=script)

    want = await whole(text(prompt=["p", "q", "r"], n=2), engine=engine)
    got = await chunks(text(prompt=["p", "q", "r"], n=2), engine=engine)

    assert [(choice["index"], choice["text"]) for choice in want["choices"]] == [
        (0, "p0"),
        (1, "p1"),
        (2, "q0"),
        (3, "q1"),
        (4, "r0"),
        (5, "r1"),
    ]
    assert [joined(got, index)["text"] for index in range(6)] == ["p0", "p1", "q0", "q1", "r0", "r1"]
    assert want["usage"]["prompt_tokens"] == 3
    assert want["usage"]["prompt_tokens_details"]["cached_tokens"] == 3
    assert len({request.id for request in engine.requests}) == 6
    assert want["usage"]["completion_tokens"] == 18


async def test_the_four_forms_of_a_prompt() -> None:
    engine = FakeEngine()

    for prompt in ("hi", ["hi", "ho"], [104, 105], [[104], [105]], [""]):
        await whole(text(prompt=prompt, max_tokens=1), engine=engine)

    prompts = [request.prompt for request in engine.requests]
    assert prompts == [(104, 105), (104, 105), (104, 111), (104, 105), (104,), (105,), (BOS,)]


async def test_scoring_a_prompt_echoes_it_and_makes_nothing() -> None:
    body = await whole(text(prompt="héllo", echo=True, max_tokens=0, logprobs=1))

    [choice] = body["choices"]
    logprobs = choice["logprobs"]
    assert choice["text"] == "héllo"
    assert choice["finish_reason"] == "length"
    assert body["usage"]["completion_tokens"] == 0
    assert logprobs["tokens"] == ["h", "bytes:\\xc3", "bytes:\\xa9", "l", "l", "o"]
    assert logprobs["text_offset"] == [0, 1, 1, 2, 3, 4]
    assert logprobs["token_logprobs"] == [None, -0.5, -0.5, -0.5, -0.5, -0.5]
    assert logprobs["top_logprobs"][0] is None
    assert logprobs["top_logprobs"][1] == {"\x00": -0.25, "bytes:\\xc3": -0.5}


async def test_offsets_go_on_behind_an_echoed_prompt() -> None:
    body = await whole(text(prompt="日本", echo=True, max_tokens=2, logprobs=0), engine=saying("xy"))

    [choice] = body["choices"]
    assert choice["text"] == "日本xy"
    assert choice["logprobs"]["text_offset"] == [0, 0, 0, 1, 1, 1, 2, 3]
    assert choice["logprobs"]["top_logprobs"][-1] == {"y": -0.5}


async def test_token_ids_are_echoed_as_their_text() -> None:
    body = await whole(text(prompt=[BOS, 104, 105], echo=True, max_tokens=0, logprobs=0))

    [choice] = body["choices"]
    assert choice["text"] == "hi"
    assert choice["logprobs"]["tokens"] == ["<bos>", "h", "i"]
    assert choice["logprobs"]["text_offset"] == [0, 0, 1]


async def test_an_echo_without_logprobs_asks_the_engine_for_none() -> None:
    engine = FakeEngine()

    await whole(text(echo=True, max_tokens=1), engine=engine)
    await whole(text(echo=True, max_tokens=1, logprobs=2), engine=engine)
    await whole(text(max_tokens=1, logprobs=2), engine=engine)

    wanted = [(request.top_logprobs, request.prompt_logprobs) for request in engine.requests]
    assert wanted == [(None, None), (2, 2), (2, None)]


async def test_a_stop_token_is_listed_with_no_text() -> None:
    body = await whole(text(logprobs=1), engine=saying("ab"))

    logprobs = body["choices"][0]["logprobs"]
    assert logprobs["tokens"] == ["a", "b", ""]
    assert logprobs["text_offset"] == [0, 1, 2]
    assert logprobs["top_logprobs"][-1] == {"\x00": -0.25, "": -0.5}


async def test_a_token_behind_a_stop_string_is_not_listed() -> None:
    body = await whole(text(logprobs=1, stop="cd"))

    assert body["choices"][0]["logprobs"]["tokens"] == ["a", "b"]
    assert body["usage"]["completion_tokens"] == 4


async def test_what_an_lm_harness_sends_gets_what_it_reads() -> None:
    context, continuation = list(b"hello"), list(b" you")

    body = await whole(text(prompt=[context + continuation], echo=True, logprobs=1, max_tokens=1, temperature=0))

    logprobs = body["choices"][0]["logprobs"]
    scores = logprobs["token_logprobs"][len(context) : -1]  # it drops the last entry, the one token that was made
    assert len(scores) == len(continuation)
    assert all(token in top for token, top in zip(logprobs["tokens"][1:], logprobs["top_logprobs"][1:], strict=True))


async def test_the_default_is_sixteen_tokens_and_more_than_fits_is_cut() -> None:
    default = await whole(text())
    most = await whole(text(max_tokens=10**6))

    assert default["usage"]["completion_tokens"] == 16
    assert most["usage"]["completion_tokens"] == CONTEXT - 5
    assert most["choices"][0]["finish_reason"] == "length"


async def test_what_asks_for_nothing_is_accepted() -> None:
    await whole(text(suffix="", best_of=1, user="u", foo=[1], logprobs=None, stop=None, echo=False))
    await whole(text(suffix=None, best_of=2, n=2, max_tokens=1))
