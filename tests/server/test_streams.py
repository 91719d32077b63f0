import asyncio

import pytest

from engine.course import Course
from engine.errors import EngineStopped, QueueFull, StepFailed
from engine.request import Delta, End, FinishReason, Request, Sampling, Stopping, Usage
from server.account import Account
from server.errors import ApiError
from server.recorder import Endpoint, RequestMetrics
from server.streams import Streams, gather, join, open_streams
from tests.fakes import FakeEngine, Script

pytestmark = pytest.mark.anyio


def request(id: str = "x", *, max_tokens: int = 3, num_choices: int = 1) -> Request:
    return Request(id, (1, 2), Sampling(seed=0), Stopping(max_tokens=max_tokens), num_choices=num_choices)


def account() -> Account:
    return Account(RequestMetrics(), Endpoint.COMPLETIONS, None)


async def test_the_deltas_of_a_choice_become_one() -> None:
    streams = open_streams(FakeEngine(), [request(num_choices=2), request("y")], param="prompt")

    parts = await gather(streams, account())

    assert list(parts) == [(0, 0), (0, 1), (1, 0)]
    assert {part.text for part in parts.values()} == {"abc"}
    assert [token.text_offset for token in parts[0, 1].tokens] == [0, 1, 2]
    assert all(part.end is not None for part in parts.values())


async def test_several_prompts_are_read_as_they_arrive() -> None:
    gate = asyncio.Event()
    engine = FakeEngine(script=lambda asked, _choice: Script(gate=gate if asked.id == "first" else None))
    streams = open_streams(engine, [request("first"), request("second")], param="prompt")

    seen = []
    async with streams.reading() as arrivals:
        async for arrival in arrivals:
            seen.append(arrival.prompt)
            if arrival.delta.end is not None:
                gate.set()

    assert seen == [1, 1, 1, 0, 0, 0]


@pytest.mark.parametrize("num_prompts", [1, 3])
async def test_leaving_early_closes_every_stream(num_prompts: int) -> None:
    engine = FakeEngine(script=lambda _request, _choice: Script(gate=asyncio.Event(), gate_at=1))
    streams = open_streams(engine, [request(str(number)) for number in range(num_prompts)], param="prompt")

    async with asyncio.TaskGroup() as group:
        gathering = group.create_task(gather(streams, account()))
        await asyncio.sleep(0)
        gathering.cancel()

    assert [stream.closed for stream in engine.opened] == [True] * num_prompts


@pytest.mark.parametrize("num_prompts", [1, 3])
@pytest.mark.parametrize("count", range(1, 9))
async def test_who_leaves_and_reads_again_has_missed_nothing(num_prompts: int, count: int) -> None:
    streams = open_streams(FakeEngine(), [request(str(number)) for number in range(num_prompts)], param="prompt")
    seen: list[tuple[int, str]] = []

    while len(seen) < 3 * num_prompts:
        async with streams.reading() as arrivals:
            for _ in range(count):
                arrival = await anext(arrivals, None)
                if arrival is not None:
                    seen.append((arrival.prompt, arrival.delta.text))
                    await asyncio.sleep(0)

    assert sorted(seen) == [(number, letter) for number in range(num_prompts) for letter in "abc"]


async def test_a_client_that_leaves_parks_every_stream() -> None:
    engine = FakeEngine()
    streams = open_streams(engine, [request("x"), request("y")], param="prompt")

    streams.park()
    parked = [stream.parked for stream in engine.opened]
    streams.unpark()

    assert (parked, [stream.parked for stream in engine.opened]) == ([True, True], [False, False])


@pytest.mark.parametrize("num_prompts", [1, 3])
async def test_an_end_that_is_an_error_is_raised_as_itself_and_closes_all(num_prompts: int) -> None:
    failure = StepFailed(request_id="x", cause="boom")
    engine = FakeEngine(script=lambda _request, _choice: Script(failure=failure, failure_at=1))
    streams = open_streams(engine, [request(str(number)) for number in range(num_prompts)], param="prompt")

    with pytest.raises(ApiError) as caught:
        await gather(streams, account())

    assert caught.value.body["code"] == "step_failed"
    assert all(stream.closed for stream in engine.opened)


async def test_an_end_that_nobody_asked_for_is_an_error() -> None:
    class Aborted:
        def __aiter__(self) -> "Aborted":
            return self

        async def __anext__(self) -> Delta:
            return Delta(0, end=End(FinishReason.ABORT, Usage(1, 0, 0)))

        def close(self) -> None:
            pass

        park = unpark = close
        courses: tuple[Course, ...] = ()

    with pytest.raises(ApiError) as caught:
        await gather(Streams([Aborted()]), account())

    assert caught.value.body["code"] == "engine_stopped"
    assert caught.value.status == 503


async def test_a_refusal_closes_what_was_open_already() -> None:
    engine = FakeEngine(refusal=QueueFull(waiting=2, limit=2, retry_after_seconds=1), refuse_after=2)

    with pytest.raises(ApiError) as caught:
        open_streams(engine, [request(str(number)) for number in range(3)], param="prompt")

    assert caught.value.status == 429
    assert [stream.closed for stream in engine.opened] == [True, True]


async def test_closing_twice_is_fine() -> None:
    engine = FakeEngine()
    streams = open_streams(engine, [request()], param="prompt")

    streams.close()
    streams.close()

    assert engine.opened[0].closed


async def test_joined_deltas_keep_the_prompts_scores_and_the_end() -> None:
    end = End(FinishReason.ERROR, Usage(1, 0, 2), error=EngineStopped())

    joined = join([Delta(1, "a", prompt_logprobs=(None,)), Delta(1, "b"), Delta(1, "", end=end)])

    assert joined == Delta(1, "ab", prompt_logprobs=(None,), end=end)
