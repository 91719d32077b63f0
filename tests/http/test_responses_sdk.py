"""OpenAI's own SDK, with its strict validation, over the Responses API on a real socket."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import openai
import pytest
from openai import AsyncOpenAI, OpenAI
from openai.types.responses import ResponseFunctionToolCall
from pydantic import BaseModel

from engine.errors import StepFailed
from tests.fakes import FakeEngine, Script, make_service
from tests.http.clients import listening

pytestmark = pytest.mark.anyio
T = TypeVar("T")
SAID = "Hi 👋🏽 日本"
FUNCTION: Any = {"type": "function", "name": "f", "description": "d", "parameters": {"type": "object"}, "strict": False}


def saying(text: str = SAID, **fields: Any) -> FakeEngine:
    return FakeEngine(script=lambda _request, _choice: Script(text, ends=True, **fields))


@asynccontextmanager
async def client(engine: FakeEngine | None = None) -> AsyncIterator[AsyncOpenAI]:
    async with (
        listening(make_service(engine or saying())) as url,
        AsyncOpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0, _strict_response_validation=True) as connected,
    ):
        yield connected


async def blocking(use: Callable[[OpenAI], T]) -> T:
    """Use the blocking client, on a thread."""

    def run(url: str) -> T:
        with OpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0, _strict_response_validation=True) as sync:
            return use(sync)

    async with listening(make_service(saying())) as url:
        return await asyncio.to_thread(run, url)


async def test_the_blocking_client_reads_a_whole_answer_and_a_stream() -> None:
    def use(sync: OpenAI) -> tuple[str, str]:
        whole = sync.responses.create(model="org/tiny", input="hello")
        stream = sync.responses.create(model="org/tiny", input="hello", stream=True)
        return whole.output_text, "".join(event.delta for event in stream if event.type == "response.output_text.delta")

    assert await blocking(use) == (SAID, SAID)


async def test_a_whole_answer_with_everything_on() -> None:
    async with client() as sdk:
        answer = await sdk.responses.create(
            model="gpt-4o",
            input=[{"role": "user", "content": [{"type": "input_text", "text": "hello"}]}],
            instructions="be brief",
            include=["message.output_text.logprobs"],
            top_logprobs=2,
            max_output_tokens=30,
            metadata={"a": "b"},
            reasoning={"effort": "low"},
            temperature=1.2,
            tools=[FUNCTION],
            tool_choice="none",
            truncation="auto",
            text={"format": {"type": "text"}, "verbosity": "low"},
            user="me",
        )

    assert answer.output_text == SAID
    assert answer.status == "completed"
    assert answer.usage is not None
    assert answer.usage.total_tokens == answer.usage.input_tokens + answer.usage.output_tokens


async def test_every_event_of_a_stream_is_as_the_sdk_has_it() -> None:
    async with client() as sdk:
        stream = await sdk.responses.create(model="org/tiny", input="hello", top_logprobs=1, stream=True)
        events = [event async for event in stream]

    assert [event.sequence_number for event in events] == list(range(len(events)))
    assert events[-1].type == "response.completed"


async def test_the_stream_helper_rebuilds_the_answer_and_takes_it_up_again() -> None:
    async with client() as sdk:
        async with sdk.responses.stream(model="org/tiny", input="hello") as stream:
            events = [event async for event in stream]
            final = await stream.get_final_response()
        async with sdk.responses.stream(response_id=final.id, starting_after=4) as rest:
            later = [event async for event in rest]
            again = await rest.get_final_response()

    assert final.output_text == again.output_text == SAID
    assert [event.sequence_number for event in later] == [
        event.sequence_number for event in events if event.sequence_number > 4
    ]


async def test_a_structured_answer_is_parsed() -> None:
    class Tide(BaseModel):
        high: int

    async with client(saying('{"high": 3}')) as sdk:
        answer = await sdk.responses.parse(model="org/tiny", input="hello", text_format=Tide)

    assert answer.output_parsed == Tide(high=3)


async def test_calls_are_items() -> None:
    said = '<tool_call>{"name":"f","arguments":{}}</tool_call>'
    async with client(saying(said)) as sdk:
        whole = await sdk.responses.create(model="org/tiny", input="x", tools=[FUNCTION])
        async with sdk.responses.stream(model="org/tiny", input="x", tools=[FUNCTION]) as stream:
            streamed = await stream.get_final_response()
        call: Any = whole.output[0]
        result: Any = {"type": "function_call_output", "call_id": call.call_id, "output": "ok"}
        after = await sdk.responses.create(model="org/tiny", input=[result], previous_response_id=whole.id)

    for answer in (whole, streamed):
        calls = [item for item in answer.output if isinstance(item, ResponseFunctionToolCall)]
        assert [(call.name, call.arguments) for call in calls] == [("f", "{}")]
    assert after.status == "completed"


async def test_what_is_kept_is_asked_for_listed_counted_and_deleted() -> None:
    async with client() as sdk:
        answer = await sdk.responses.create(model="org/tiny", input="hello")
        again = await sdk.responses.retrieve(answer.id)
        items = [item async for item in sdk.responses.input_items.list(answer.id, limit=1)]
        count = await sdk.responses.input_tokens.count(model="org/tiny", input="hello")
        await sdk.responses.delete(answer.id)
        with pytest.raises(openai.NotFoundError):
            await sdk.responses.retrieve(answer.id)
        with pytest.raises(openai.NotFoundError) as gone:
            await sdk.responses.create(model="org/tiny", input="hello", previous_response_id=answer.id)

    assert again.output_text == answer.output_text
    assert len(items) == 1
    assert count.input_tokens == 5
    assert gone.value.code == "previous_response_not_found"


async def test_what_runs_in_the_background_is_polled_streamed_and_cancelled() -> None:
    gate = asyncio.Event()
    async with client(saying(gate=gate, gate_at=2)) as sdk:
        queued = await sdk.responses.create(model="org/tiny", input="hello", background=True)
        other = await sdk.responses.create(model="org/tiny", input="hello", background=True)
        cancelled = await sdk.responses.cancel(other.id)
        gate.set()
        stream = await sdk.responses.retrieve(queued.id, stream=True, starting_after=1)
        events = [event async for event in stream]
        done = await sdk.responses.retrieve(queued.id)

    assert (queued.status, cancelled.status, done.status) == ("queued", "cancelled", "completed")
    assert [event.sequence_number for event in events] == list(range(2, len(events) + 2))


async def test_a_stream_that_fails_has_the_sdks_event() -> None:
    async with client(saying(failure=StepFailed(request_id="x", cause="boom"), failure_at=1)) as sdk:
        stream = await sdk.responses.create(model="org/tiny", input="hello", stream=True)
        *_, last = [event async for event in stream]
        with pytest.raises(openai.InternalServerError):
            await sdk.responses.create(model="org/tiny", input="hello")

    assert last.type == "response.failed"
    assert last.response.error is not None
