"""The whole server over a tiny random model: what the fake engine can't show."""

import asyncio
import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from config.settings import CacheSettings, EngineSettings, ModelSettings, Settings
from engine.build import build
from server.service import Service
from tests.http.clients import chunks_of, frames_of, listening
from tests.tiny import MAX_CONTEXT, make_tiny_model_folder

pytestmark = pytest.mark.anyio
CHAT, TEXT = "/v1/chat/completions", "/v1/completions"
BLOCK_SIZE = 16
Body = dict[str, Any]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tiny")
    make_tiny_model_folder(folder)
    return folder


@pytest.fixture(params=["auto", "torch"])
def model(request: pytest.FixtureRequest, folder: Path) -> ModelSettings:
    """The tiny model, on the native kernels and on torch's operators."""
    return ModelSettings(path=str(folder), name="tiny", num_threads=1, kernels=request.param)


@asynccontextmanager
async def serving(model: ModelSettings) -> AsyncIterator[httpx.AsyncClient]:
    """A client of a real server over a real engine."""
    settings = Settings(
        model=model,
        cache=CacheSettings(block_size=BLOCK_SIZE, num_blocks=128),
        engine=EngineSettings(check_laws=True),
    )
    built = await asyncio.to_thread(build, settings, progress=lambda _line: None)
    service = Service(settings)
    service.attach(built)
    async with asyncio.TaskGroup() as group:
        group.create_task(built.engine.run())
        async with listening(service) as url, httpx.AsyncClient(base_url=url, timeout=60) as client:
            yield client
        built.engine.stop()


def chat(**fields: object) -> Body:
    return {"model": "tiny", "messages": [{"role": "user", "content": "hello"}], "max_tokens": 12, **fields}


def text(**fields: object) -> Body:
    return {"model": "tiny", "prompt": "the one in the", "max_tokens": 8, **fields}


async def posted(client: httpx.AsyncClient, path: str, body: Body) -> Body:
    answer = await client.post(path, json=body)
    assert answer.status_code == 200, answer.text
    result: Body = answer.json()
    return result


def content(choice: Body) -> Body:
    """What must be the same every time."""
    return {name: choice[name] for name in ("index", "message", "logprobs", "finish_reason", "token_ids")}


async def test_the_same_request_has_the_same_answer_whole_streamed_and_in_a_crowd(model: ModelSettings) -> None:
    body = chat(n=3, seed=7, temperature=1.2, logprobs=True, top_logprobs=2, return_token_ids=True)

    async with serving(model) as client:
        alone = await posted(client, CHAT, body)
        crowd = await asyncio.gather(
            *(posted(client, CHAT, body if number % 3 == 0 else chat(seed=number)) for number in range(12))
        )
        streamed = chunks_of((await client.post(CHAT, json=body | {"stream": True})).text)

    for same in crowd[::3]:
        assert [content(choice) for choice in same["choices"]] == [content(choice) for choice in alone["choices"]]
    assert len({choice["message"]["content"] for choice in alone["choices"]}) > 1
    for choice in alone["choices"]:
        mine = [part for chunk in streamed for part in chunk["choices"] if part["index"] == choice["index"]]
        assert "".join(part["delta"].get("content", "") for part in mine) == choice["message"]["content"]
        listed = [entry for part in mine if part["logprobs"] for entry in part["logprobs"]["content"]]
        assert listed == choice["logprobs"]["content"]


async def test_a_prompt_that_comes_again_is_found_in_the_cache(model: ModelSettings) -> None:
    body = text(prompt="the one in the " * 12, max_tokens=2)

    async with serving(model) as client:
        first, second = [(await posted(client, TEXT, body))["usage"] for _ in range(2)]

    cached = second["prompt_tokens_details"]["cached_tokens"]
    assert first["prompt_tokens_details"]["cached_tokens"] == 0
    assert 0 < cached < second["prompt_tokens"]
    assert cached % BLOCK_SIZE == 0


async def test_scoring_agrees_with_what_was_made(model: ModelSettings) -> None:
    async with serving(model) as client:
        made = await posted(client, TEXT, text(temperature=0, logprobs=1, return_token_ids=True, ignore_eos=True))
        [choice] = made["choices"]
        tokens = choice["prompt_token_ids"] + choice["token_ids"]
        scored = await posted(client, TEXT, text(prompt=tokens, echo=True, logprobs=1, max_tokens=0))

    [echoed] = scored["choices"]
    count = len(choice["token_ids"])
    assert echoed["logprobs"]["token_logprobs"][0] is None
    assert echoed["logprobs"]["token_logprobs"][-count:] == choice["logprobs"]["token_logprobs"]
    assert scored["usage"]["completion_tokens"] == 0


async def test_the_longest_prompt_runs_and_one_token_more_is_refused(model: ModelSettings) -> None:
    async with serving(model) as client:
        longest = await posted(client, TEXT, text(prompt=[5] * (MAX_CONTEXT - 1)))
        refused = await client.post(TEXT, json=text(prompt=[5] * MAX_CONTEXT))
        scored = await posted(client, TEXT, text(prompt=[5] * MAX_CONTEXT, max_tokens=0))
        after = await posted(client, TEXT, text())

    assert longest["usage"]["completion_tokens"] == 1
    assert refused.json()["error"]["code"] == "context_length_exceeded"
    assert scored["usage"]["completion_tokens"] == 0
    assert after["choices"][0]["finish_reason"]


async def test_bias_stops_and_limits_do_what_they_say(model: ModelSettings) -> None:
    async with serving(model) as client:
        forced = await posted(client, TEXT, text(logit_bias={"50": 100}, return_token_ids=True, max_tokens=4))
        stopped = await posted(client, TEXT, text(logit_bias={"50": 100}, stop_token_ids=[50]))
        late = await posted(client, TEXT, text(logit_bias={"50": 100}, stop_token_ids=[50], min_tokens=3))

    assert forced["choices"][0]["token_ids"] == [50] * 4
    assert (stopped["choices"][0]["finish_reason"], stopped["choices"][0]["stop_reason"]) == ("stop", 50)
    assert stopped["usage"]["completion_tokens"] == 1
    assert late["usage"]["completion_tokens"] == 4


@pytest.mark.parametrize("stream", [False, True])
async def test_a_client_that_left_leaves_nothing_that_runs_waits_or_holds_a_block(
    model: ModelSettings, stream: bool
) -> None:
    async with serving(model) as client:
        body = text(n=3, stream=stream, max_tokens=400, ignore_eos=True)
        async with asyncio.TaskGroup() as group:
            asking = group.create_task(client.post(TEXT, json=body))
            while not (await client.get("/ledger")).json()["running"]:
                pass
            asking.cancel()
        async with asyncio.timeout(60):
            while (ledger := (await client.get("/ledger")).json())["running"]:
                pass

    assert ledger["running"] == ledger["waiting"] == ledger["paused"] == 0
    assert ledger["parked"] == (3 if stream else 0)
    assert ledger["pool"]["allocated"] == ledger["pool"]["shared"] == 0


@pytest.mark.parametrize("num_lost", [0, 2])
async def test_a_stream_that_is_left_again_and_again_says_what_it_would_have_said(
    model: ModelSettings, num_lost: int
) -> None:
    body = text(prompt=["the one", "in the"], n=2, seed=5, temperature=1.2, max_tokens=24, ignore_eos=True)
    body |= {"stream": True, "stream_options": {"include_usage": True}}
    async with serving(model) as client:
        expected = (await client.post(TEXT, json=body)).text
        frames: list[dict[str, str]] = []
        while not frames or frames[-1]["data"] != "[DONE]":
            headers = {"last-event-id": frames[-1]["id"]} if frames else {}
            frames += await first_frames(client, body, headers, count=7)
            if frames[-1]["data"] != "[DONE]":
                del frames[len(frames) - num_lost :]
        async with asyncio.timeout(60):
            while (ledger := (await client.get("/ledger")).json())["sequences"]:
                pass

    id = frames[0]["id"].rpartition(":")[0]
    assert [frame["id"] for frame in frames] == [f"{id}:{number}" for number in range(len(frames))]
    resumed = [json.loads(frame["data"]) for frame in frames[:-1]]
    assert said(resumed) == said(chunks_of(expected))
    assert resumed[-1]["usage"]["completion_tokens"] == chunks_of(expected)[-1]["usage"]["completion_tokens"]
    assert ledger["pool"]["allocated"] == ledger["pool"]["shared"] == 0


async def first_frames(
    client: httpx.AsyncClient, body: Body, headers: dict[str, str], *, count: int
) -> list[dict[str, str]]:
    """The first events of a stream, whose client then leaves."""
    received = ""
    async with client.stream("POST", TEXT, json={} if headers else body, headers=headers) as answer:
        assert answer.status_code == 200
        async for part in answer.aiter_text():
            received += part
            if received.count("\n\n") >= count or "[DONE]" in received:
                break
    return frames_of(received[: received.rindex("\n\n") + 2])


def said(chunks: list[Body]) -> dict[int, str]:
    """Each choice's text."""
    texts: dict[int, str] = {}
    for chunk in chunks:
        for choice in chunk["choices"]:
            texts[choice["index"]] = texts.get(choice["index"], "") + choice["text"]
    return texts


@pytest.mark.parametrize("seed", [0, 1], ids=["the same model", "another"])
async def test_a_draft_model_changes_no_answer_and_is_counted(model: ModelSettings, tmp_path: Path, seed: int) -> None:
    make_tiny_model_folder(tmp_path, seed=seed)
    greedy = chat(temperature=0, max_tokens=40, logprobs=True, top_logprobs=2, return_token_ids=True)
    bodies = [greedy, {**greedy, "n": 2, "seed": 7, "temperature": 0.9}, {**greedy, "max_draft_tokens": 0}]

    answers = []
    for draft_path in (None, str(tmp_path)):
        async with serving(model.model_copy(update={"draft_path": draft_path})) as client:
            answers.append([await posted(client, CHAT, body) for body in bodies])
            page = (await client.get("/metrics")).text

    for plain, drafted in zip(*answers, strict=True):
        assert [*map(content, drafted["choices"])] == [*map(content, plain["choices"])]
        assert drafted["usage"] == plain["usage"]
    counts = re.findall(r'^(\w+)\{.*source="draft_model".*\} (\S+)$', page, re.MULTILINE)
    counted = {name: float(value) for name, value in counts}
    assert counted["tidemark_draft_tokens_total"] > 0
    assert seed or counted["tidemark_draft_tokens_accepted_total"] > 0
    assert re.search(r'^tidemark_step_seconds_count\{.*stage="guess".*\} [1-9]', page, re.MULTILINE)


@pytest.mark.parametrize("pooling", ["last", "mean"])
async def test_an_embedding_has_the_same_bits_alone_in_a_crowd_and_behind_a_hit(
    model: ModelSettings, pooling: str
) -> None:
    stem = [5 + number % 40 for number in range(40)]
    inputs = [[*stem[: number % 41], 7 + number % 50] for number in range(100)]  # from one token on

    def asked(given: list[list[int]]) -> Body:
        return {"model": "tiny", "input": given, "pooling": pooling, "encoding_format": "base64"}

    async with serving(model) as client:
        alone = [(await client.post("/v1/embeddings", json=asked([given]))).json() for given in inputs[:45]]
        async with asyncio.TaskGroup() as group:
            chats = [group.create_task(client.post(CHAT, json=chat(seed=seed, max_tokens=40))) for seed in range(6)]
            crowd = await client.post("/v1/embeddings", json=asked(inputs))

    values = [each["embedding"] for each in crowd.json()["data"]]
    assert [each["data"][0]["embedding"] for each in alone] == values[:45]
    assert len(set(values)) > 40
    assert crowd.json()["usage"]["prompt_tokens"] == sum(map(len, inputs))
    assert {each.result().status_code for each in chats} == {200}


async def test_an_embedding_leaves_its_blocks_to_a_completion(model: ModelSettings) -> None:
    given = [5 + number % 40 for number in range(40)]

    async with serving(model) as client:
        await client.post("/v1/embeddings", json={"model": "tiny", "input": given, "pooling": "mean"})
        answer = (await client.post(TEXT, json=text(prompt=given))).json()

    assert answer["usage"]["prompt_tokens_details"]["cached_tokens"] == 2 * BLOCK_SIZE


async def test_a_conversation_that_goes_on_from_a_response_is_found_in_the_cache(model: ModelSettings) -> None:
    asked = {"model": "tiny", "input": "the one in the " * 12, "max_output_tokens": 4, "temperature": 0}

    async with serving(model) as client:
        first = await posted(client, "/v1/responses", asked)
        more = {"input": "and more", "previous_response_id": first["id"]}
        second = await posted(client, "/v1/responses", asked | more)
        counted = await posted(client, "/v1/responses/input_tokens", {"model": "tiny", **more})

    assert second["usage"]["input_tokens"] == counted["input_tokens"] > first["usage"]["input_tokens"]
    assert second["usage"]["input_tokens_details"]["cached_tokens"] >= BLOCK_SIZE
