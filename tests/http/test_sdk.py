"""OpenAI's own SDK, with its strict validation, against a real server on a real socket."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import openai
import pytest
from openai import AsyncOpenAI, OpenAI
from pydantic import ValidationError

from engine.errors import QueueFull, StepFailed
from tests.fakes import FakeEngine, Script, make_service
from tests.http.clients import listening

pytestmark = pytest.mark.anyio
T = TypeVar("T")
MESSAGES: Any = [{"role": "user", "content": "hello"}]
SAID = "Hi 👋🏽 日本"


def saying(**fields: Any) -> FakeEngine:
    return FakeEngine(script=lambda _request, _choice: Script(SAID, ends=True, **fields))


@asynccontextmanager
async def client(engine: FakeEngine | None = None, *, strict: bool = True) -> AsyncIterator[AsyncOpenAI]:
    async with (
        listening(make_service(engine or saying())) as url,
        AsyncOpenAI(
            base_url=f"{url}/v1", api_key="none", max_retries=0, _strict_response_validation=strict
        ) as connected,
    ):
        yield connected


async def blocking(engine: FakeEngine, use: Callable[[OpenAI], T], *, strict: bool = True) -> T:
    """Use the blocking client, on a thread."""

    def run(url: str) -> T:
        with OpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0, _strict_response_validation=strict) as sync:
            return use(sync)

    async with listening(make_service(engine)) as url:
        return await asyncio.to_thread(run, url)


async def test_the_blocking_client_reads_a_whole_answer_and_a_stream() -> None:
    def use(sync: OpenAI) -> tuple[str | None, str]:
        whole = sync.chat.completions.create(model="org/tiny", messages=MESSAGES)
        stream = sync.chat.completions.create(model="org/tiny", messages=MESSAGES, stream=True)
        return whole.choices[0].message.content, "".join(chunk.choices[0].delta.content or "" for chunk in stream)

    assert await blocking(saying(), use) == (SAID, SAID)


async def test_a_whole_chat_with_everything_on() -> None:
    async with client() as sdk:
        answer = await sdk.chat.completions.create(
            model="gpt-4o", messages=MESSAGES, n=2, logprobs=True, top_logprobs=2, seed=1, stop=["zzz"], temperature=1.2
        )

    assert [choice.message.content for choice in answer.choices] == [SAID, SAID]
    assert answer.choices[1].logprobs is not None
    entries = answer.choices[1].logprobs.content or []
    assert bytes(byte for entry in entries for byte in entry.bytes or []).decode() == SAID
    assert answer.usage is not None
    assert answer.usage.prompt_tokens_details is not None
    assert answer.usage.completion_tokens_details is not None


async def test_a_streamed_chat_with_everything_on() -> None:
    async with client() as sdk:
        stream = await sdk.chat.completions.create(
            model="org/tiny",
            messages=MESSAGES,
            n=2,
            logprobs=True,
            top_logprobs=1,
            stream=True,
            stream_options={"include_usage": True},
        )
        chunks = [chunk async for chunk in stream]

    assert chunks[-1].usage is not None
    assert chunks[-1].choices == []
    for index in range(2):
        choices = [choice for chunk in chunks for choice in chunk.choices if choice.index == index]
        assert "".join(choice.delta.content or "" for choice in choices) == SAID
        assert [choice.finish_reason for choice in choices if choice.finish_reason] == ["stop"]


async def test_the_stream_helper_rebuilds_the_answer() -> None:
    async with (
        client() as sdk,
        sdk.chat.completions.stream(model="org/tiny", messages=MESSAGES, logprobs=True, top_logprobs=1) as stream,
    ):
        events = [event async for event in stream]
        final = await stream.get_final_completion()

    assert final.choices[0].message.content == SAID
    assert final.choices[0].finish_reason == "stop"
    assert {event.type for event in events} >= {"chunk", "content.delta", "content.done"}


async def test_whole_completions_in_every_form() -> None:
    async with client() as sdk:
        several = await sdk.completions.create(model="org/tiny", prompt=["a", "b"], n=2, logprobs=2, max_tokens=30)
        tokens = await sdk.completions.create(model="org/tiny", prompt=[104, 105], max_tokens=30)
        scored = await sdk.completions.create(model="org/tiny", prompt=[[104], [105]], max_tokens=0, echo=True)

    assert [choice.text for choice in several.choices] == [SAID] * 4
    assert tokens.choices[0].text == SAID
    assert [choice.text for choice in scored.choices] == ["h", "i"]


async def test_streamed_completions() -> None:
    """The SDK's strict types refuse the null reason that OpenAI sends in each chunk but the last."""
    async with client(strict=False) as sdk:
        stream = await sdk.completions.create(
            model="org/tiny", prompt="a", max_tokens=30, logprobs=1, stream=True, stream_options={"include_usage": True}
        )
        chunks = [chunk async for chunk in stream]

    assert "".join(chunk.choices[0].text for chunk in chunks[:-1]) == SAID
    assert chunks[-1].usage is not None
    with pytest.raises(ValidationError, match="finish_reason"):
        type(chunks[0]).model_validate(chunks[0].model_dump())
    reasons = {"finish_reason": "stop"}
    for chunk in chunks:  # and nothing else
        body = chunk.model_dump()
        body["choices"] = [choice | reasons for choice in body["choices"]]
        type(chunk).model_validate(body)


async def test_embeddings_in_both_formats() -> None:
    """The SDK asks for base64 by itself, and decodes it behind its validation, which refuses text if it is strict."""
    async with client() as sdk:
        numbers = await sdk.embeddings.create(model="org/tiny", input=["a", "b"], encoding_format="float")
    async with client(strict=False) as sdk:
        by_default = await sdk.embeddings.create(model="org/tiny", input=["a", "b"], dimensions=3, user="somebody")

    assert [each.embedding for each in by_default.data] == [each.embedding for each in numbers.data]
    assert [len(each.embedding) for each in numbers.data] == [3, 3]
    assert [each.index for each in numbers.data] == [0, 1]
    assert numbers.usage.total_tokens == 2


async def test_the_blocking_client_reads_embeddings_of_tokens() -> None:
    def use(sync: OpenAI) -> list[int]:
        answer = sync.embeddings.create(model="org/tiny", input=[[1, 2], [3]], encoding_format="float")
        return [len(each.embedding) for each in answer.data]

    assert await blocking(saying(), use) == [3, 3]


async def test_the_models_are_listed_and_found() -> None:
    async with client() as sdk:
        models = [model.id async for model in sdk.models.list()]
        one = await sdk.models.retrieve("org/tiny")

    assert models == ["org/tiny", "gpt-4o"]
    assert one.id == "org/tiny"


async def test_errors_have_the_sdks_classes() -> None:
    full = FakeEngine(refusal=QueueFull(waiting=1, limit=1, retry_after_seconds=1))
    failing = saying(failure=StepFailed(request_id="x", cause="boom"), failure_at=2)

    async with client() as sdk:
        with pytest.raises(openai.NotFoundError) as unknown:
            await sdk.chat.completions.create(model="nope", messages=MESSAGES)
        with pytest.raises(openai.BadRequestError) as wrong:
            await sdk.chat.completions.create(model="org/tiny", messages=MESSAGES, temperature=3)
        with pytest.raises(openai.BadRequestError):
            await sdk.chat.completions.create(model="org/tiny", messages=MESSAGES, n=0, stream=True)
    async with client(full) as sdk:
        with pytest.raises(openai.RateLimitError) as refused:
            await sdk.chat.completions.create(model="org/tiny", messages=MESSAGES)
    async with client(failing) as sdk:
        with pytest.raises(openai.InternalServerError):
            await sdk.chat.completions.create(model="org/tiny", messages=MESSAGES)
        stream = await sdk.chat.completions.create(model="org/tiny", messages=MESSAGES, stream=True)
        with pytest.raises(openai.APIError) as broken:
            [chunk async for chunk in stream]

    assert (unknown.value.code, unknown.value.param) == ("model_not_found", "model")
    assert (wrong.value.param, wrong.value.type) == ("temperature", "invalid_request_error")
    assert refused.value.response.headers["retry-after"] == "1"
    assert broken.value.code == "step_failed"
