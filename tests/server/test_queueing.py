import asyncio
from collections.abc import Sequence

import pytest

from engine.errors import ContextTooLong, QueueFull
from engine.request import Delta, Pooling, Request, Sampling, Stopping
from server.account import Account
from server.errors import ApiError
from server.queueing import gather_in_turn
from server.recorder import Endpoint, RequestMetrics
from server.streams import Parts
from tests.fakes import CONTEXT, FakeEngine, FakeStream, Script
from tests.http.test_disconnects import until

pytestmark = pytest.mark.anyio


def requests(count: int) -> list[Request]:
    return [
        Request(f"r-{number}", (number + 1,), Sampling(seed=0), Stopping(max_tokens=0), pooling=Pooling.LAST)
        for number in range(count)
    ]


class UnhurriedStream(FakeStream):
    """Lets others go on before it says anything."""

    async def __anext__(self) -> Delta:
        await asyncio.sleep(0)
        return await super().__anext__()


class SmallQueue(FakeEngine):
    """Refuses whatever would be more than `places` at once, and counts."""

    def __init__(self, places: int, script: Script | None = None) -> None:
        super().__init__(script=lambda _request, _choice: script or Script())
        self.places = places
        self.most_at_once = 0
        self.num_refused = 0

    def open(self, request: Request) -> FakeStream:
        running = [stream for stream in self.opened if not stream.ended]
        if len(running) >= self.places:
            self.num_refused += 1
            raise QueueFull(waiting=len(running), limit=self.places, retry_after_seconds=1)
        self.most_at_once = max(self.most_at_once, len(running) + 1)
        stream = UnhurriedStream(request, [self.script(request, 0)])
        self.opened.append(stream)
        return stream


async def gathered(engine: FakeEngine, asked: Sequence[Request], *, at_once: int) -> Parts:
    account = Account(RequestMetrics(), Endpoint.EMBEDDINGS, None)
    return await gather_in_turn(engine, asked, account, param="input", at_once=at_once)


def firsts(parts: Parts) -> dict[int, float]:
    return {number: part.embedding[0] for (number, _), part in parts.items() if part.embedding is not None}


async def test_all_requests_run_some_at_a_time() -> None:
    engine = SmallQueue(places=100)

    parts = await gathered(engine, requests(20), at_once=3)

    assert firsts(parts) == {number: number + 1.0 for number in range(20)}
    assert engine.most_at_once == 3


async def test_what_finds_the_queue_full_waits_for_one_of_its_own() -> None:
    engine = SmallQueue(places=2)

    parts = await gathered(engine, requests(9), at_once=5)

    assert firsts(parts) == {number: number + 1.0 for number in range(9)}
    assert engine.most_at_once == 2
    assert engine.num_refused == 3


async def test_a_queue_that_others_have_filled_refuses_them_all() -> None:
    engine = SmallQueue(places=0)

    with pytest.raises(ApiError) as refused:
        await gathered(engine, requests(9), at_once=5)

    assert refused.value.status == 429
    assert engine.opened == []


async def test_one_that_can_never_run_refuses_them_all_before_anything_runs() -> None:
    engine = FakeEngine()
    asked = requests(3)
    asked[2] = Request("long", (1,) * (CONTEXT + 1), Sampling(seed=0), Stopping(max_tokens=0))

    with pytest.raises(ApiError) as refused:
        await gathered(engine, asked, at_once=2)

    assert isinstance(refused.value.__cause__, ContextTooLong)
    assert refused.value.body["param"] == "input"
    assert engine.opened == []


async def test_leaving_closes_what_runs_and_opens_no_more() -> None:
    engine = SmallQueue(places=100, script=Script(gate=asyncio.Event()))

    async with asyncio.TaskGroup() as group:
        work = group.create_task(gathered(engine, requests(9), at_once=4))
        await until(lambda: len(engine.opened) == 4)
        work.cancel()

    assert len(engine.opened) == 4
    assert all(stream.closed for stream in engine.opened)
