"""Anthropic's own SDK, with its strict validation, against a real server on a real socket."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anthropic
import pytest
from anthropic import Anthropic, AsyncAnthropic
from pydantic import BaseModel

from engine.errors import QueueFull, StepFailed
from tests.fakes import FakeEngine, Script, make_service, make_settings
from tests.http.clients import listening

pytestmark = pytest.mark.anyio
MESSAGES: Any = [{"role": "user", "content": "hello"}]
ASKED: Any = {"model": "org/tiny", "messages": MESSAGES, "max_tokens": 40}
SAID = "Hi 👋🏽 日本"


def saying(**fields: Any) -> FakeEngine:
    return FakeEngine(script=lambda _request, _choice: Script(SAID, ends=True, **fields))


@asynccontextmanager
async def client(engine: FakeEngine | None = None, *, key: str = "none") -> AsyncIterator[AsyncAnthropic]:
    service = make_service(engine or saying(cached_tokens=3), settings=make_settings(api_keys=("none",)))
    async with (
        listening(service) as url,
        AsyncAnthropic(base_url=url, api_key=key, max_retries=0, _strict_response_validation=True) as connected,
    ):
        yield connected


def unset(model: BaseModel) -> set[str]:
    """Fields of the SDK's types, and of those within, that an answer left out."""
    missing = set(type(model).model_fields) - model.model_fields_set
    for name in model.model_fields_set:
        value = getattr(model, name)
        for one in value if isinstance(value, list) else [value]:
            missing |= unset(one) if isinstance(one, BaseModel) else set()
    return missing


async def test_a_whole_answer_has_every_field_of_the_sdks_types() -> None:
    async with client() as sdk:
        answer = await sdk.messages.create(
            **ASKED, system="Be brief.", stop_sequences=["zzz"], extra_body={"temperature": 1.0}
        )

    assert answer.content[0].type == "text"
    assert answer.content[0].text == SAID
    assert answer.stop_reason == "end_turn"
    assert (answer.usage.cache_read_input_tokens, answer.usage.cache_creation_input_tokens) == (3, 0)
    assert answer._request_id is not None
    assert answer._request_id.startswith("req_")
    assert unset(answer) == set()


async def test_every_event_of_a_stream_has_every_field_of_the_sdks_types() -> None:
    async with client() as sdk:
        told = [event async for event in await sdk.messages.create(**ASKED, stream=True)]

    assert [event.type for event in told][:2] == ["message_start", "content_block_start"]  # the SDK hides the ping
    assert [event.type for event in told][-3:] == ["content_block_stop", "message_delta", "message_stop"]
    assert set().union(*map(unset, told)) == set()


async def test_the_stream_helper_rebuilds_the_answer() -> None:
    async with client() as sdk:
        whole = await sdk.messages.create(**ASKED)
        async with sdk.messages.stream(**ASKED) as stream:
            text = "".join([part async for part in stream.text_stream])
            final = await stream.get_final_message()
        request_id = stream.request_id

    assert text == SAID
    assert final.model_dump(exclude={"id"}) == whole.model_dump(exclude={"id"})
    assert request_id is not None


async def test_the_blocking_client_reads_a_whole_answer_and_a_stream() -> None:
    def use(url: str) -> tuple[str, str]:
        with Anthropic(base_url=url, api_key="none", max_retries=0, _strict_response_validation=True) as sync:
            whole = sync.messages.create(**ASKED)
            with sync.messages.stream(**ASKED) as stream:
                text = "".join(stream.text_stream)
        assert whole.content[0].type == "text"
        return whole.content[0].text, text

    async with listening(make_service(saying())) as url:
        assert await asyncio.to_thread(use, url) == (SAID, SAID)


async def test_tokens_are_counted() -> None:
    async with client() as sdk:
        counted = await sdk.messages.count_tokens(model="org/tiny", messages=MESSAGES, system="Be brief.")

    assert counted.input_tokens == len("Be brief.hello")
    assert unset(counted) == set()


async def test_a_bearer_token_is_a_key_too() -> None:
    async with (
        listening(make_service(saying(), settings=make_settings(api_keys=("secret",)))) as url,
        AsyncAnthropic(base_url=url, auth_token="secret", max_retries=0) as sdk,
    ):
        assert (await sdk.messages.create(**ASKED)).stop_reason == "end_turn"


async def test_errors_have_the_sdks_classes() -> None:
    full = FakeEngine(refusal=QueueFull(waiting=1, limit=1, retry_after_seconds=1))
    failing = saying(failure=StepFailed(request_id="x", cause="boom"), failure_at=2)

    async with client() as sdk:
        with pytest.raises(anthropic.NotFoundError) as unknown:
            await sdk.messages.create(**ASKED | {"model": "nope"})
        with pytest.raises(anthropic.BadRequestError) as wrong:
            await sdk.messages.create(**ASKED, extra_body={"temperature": 1.5})
    async with client(key="other") as sdk:
        with pytest.raises(anthropic.AuthenticationError):
            await sdk.messages.create(**ASKED)
    async with client(full) as sdk:
        with pytest.raises(anthropic.RateLimitError) as refused:
            await sdk.messages.create(**ASKED)
    async with client(failing) as sdk:
        with pytest.raises(anthropic.InternalServerError):
            await sdk.messages.create(**ASKED)
        stream = await sdk.messages.create(**ASKED, stream=True)
        with pytest.raises(anthropic.APIStatusError) as broken:
            [event async for event in stream]

    assert (unknown.value.type, unknown.value.api_message) == (
        "not_found_error",
        "no such model; this server has org/tiny, gpt-4o",
    )
    assert unknown.value.request_id is not None
    assert wrong.value.type == "invalid_request_error"
    assert refused.value.response.headers["retry-after"] == "1"
    assert broken.value.type == "api_error"
