"""`prompt_logprobs`, vLLM's extension: the scores of a prompt's tokens, by id."""

from typing import Any

import pytest

from tests.fakes import FakeEngine, make_service
from tests.http.clients import client_of

Body = dict[str, Any]
CHAT, TEXT = "/v1/chat/completions", "/v1/completions"
MESSAGES = [{"role": "user", "content": "hi"}]
pytestmark = pytest.mark.anyio


async def post(path: str, engine: FakeEngine | None = None, **fields: object) -> Body:
    async with client_of(make_service(engine)) as client:
        answer = await client.post(path, json={"model": "org/tiny", **fields})
    assert answer.status_code == 200, answer.text
    body: Body = answer.json()
    return body


async def test_a_completion_has_the_scores_of_its_prompt_s_tokens() -> None:
    [choice] = (await post(TEXT, prompt="hi", max_tokens=0, prompt_logprobs=1))["choices"]

    first, second = choice["prompt_logprobs"]
    assert first is None
    assert second["105"] == {"logprob": -0.5, "rank": None, "decoded_token": "i"}
    assert second["0"]["rank"] == 1
    assert (choice["text"], choice["logprobs"]) == ("", None)


async def test_each_prompt_has_its_own() -> None:
    choices = (await post(TEXT, prompt=[[1, 2, 3], [4]], max_tokens=1, prompt_logprobs=0))["choices"]

    assert [len(choice["prompt_logprobs"]) for choice in choices] == [3, 1]
    assert [list(scores) for scores in choices[0]["prompt_logprobs"][1:]] == [["2"], ["3"]]


async def test_a_chat_has_them_once() -> None:
    answer = await post(CHAT, messages=MESSAGES, max_tokens=1, n=2, prompt_logprobs=0)

    assert answer["prompt_logprobs"] == [None, {"105": {"logprob": -0.5, "rank": None, "decoded_token": "i"}}]


@pytest.mark.parametrize(("path", "fields"), [(CHAT, {"messages": MESSAGES}), (TEXT, {"prompt": "hi", "echo": True})])
async def test_who_does_not_ask_gets_none(path: str, fields: Body) -> None:
    answer = await post(path, **fields, max_tokens=2, logprobs=True if path == CHAT else 1)

    assert "prompt_logprobs" not in answer
    assert all("prompt_logprobs" not in choice for choice in answer["choices"])


@pytest.mark.parametrize(("logprobs", "wanted", "most"), [(2, 1, 2), (1, 3, 3)])
async def test_echo_and_scores_by_id_each_list_as_many_as_they_ask_for(logprobs: int, wanted: int, most: int) -> None:
    engine = FakeEngine()

    [choice] = (
        await post(TEXT, engine, prompt="hi", max_tokens=1, echo=True, logprobs=logprobs, prompt_logprobs=wanted)
    )["choices"]

    assert engine.requests[0].prompt_logprobs == most
    assert len(choice["prompt_logprobs"][1]) == wanted + 1  # the token itself is never among the best here
    assert len(choice["logprobs"]["top_logprobs"][1]) == logprobs + 1


@pytest.mark.parametrize(("path", "fields"), [(CHAT, {"messages": MESSAGES}), (TEXT, {"prompt": "hi"})])
@pytest.mark.parametrize(
    "wrong", [{"prompt_logprobs": 21}, {"prompt_logprobs": -1}, {"prompt_logprobs": 0, "stream": True}]
)
async def test_a_stream_and_other_numbers_are_refused(path: str, fields: Body, wrong: Body) -> None:
    async with client_of(make_service()) as client:
        answer = await client.post(path, json={"model": "org/tiny", **fields, **wrong})

    assert (answer.status_code, answer.json()["error"]["param"]) == (400, "prompt_logprobs")
