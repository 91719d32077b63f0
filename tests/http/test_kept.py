"""Responses that are kept before anybody is told of them, so that no death of the process makes them unknown."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import count
from threading import Event
from typing import Any

import httpx
import pytest

from tests.fakes import FakeEngine, Script, make_service
from tests.http.clients import listening
from tests.http.test_disconnects import PATIENCE_SECONDS, until

pytestmark = pytest.mark.anyio
PATH = "/v1/responses"
BODY: dict[str, object] = {"model": "org/tiny", "input": "hello"}
ANYTHING, ITS_END = "", "event: response.completed"


class Case:
    """A server whose engine answers at once, and whose disk takes its time when it writes number `slow_at`."""

    def __init__(self, *, slow_at: int, gate: asyncio.Event | None = None) -> None:
        self.service = make_service(FakeEngine(script=lambda _request, _choice: Script("Hi", ends=True, gate=gate)))
        self.writes, self.goes_on = Event(), Event()
        self.heard: list[str] = []
        store = self.service.store
        put, numbers = store._put, count(1)

        def slow_put(*arguments: Any) -> None:
            if next(numbers) == slow_at:
                self.writes.set()
                assert self.goes_on.wait(PATIENCE_SECONDS)
            put(*arguments)

        store._put = slow_put  # type: ignore[method-assign, assignment]  # the disk

    async def hear(self, client: httpx.AsyncClient, method: str, path: str, **request: Any) -> None:
        """Send a request and note every line of its answer as it comes."""
        async with client.stream(method, path, **request) as answer:
            async for line in answer.aiter_lines():
                self.heard.append(line)

    @asynccontextmanager
    async def stuck(self) -> AsyncIterator[None]:
        """While the disk writes, which ends with the block. It gets the time in which a wrong answer would come."""
        await until(self.writes.is_set)
        try:
            await asyncio.sleep(0.2)
            yield
        finally:
            self.goes_on.set()


@pytest.mark.parametrize(
    ("fields", "slow_at", "unheard"),
    [
        ({}, 1, ANYTHING),
        ({"stream": True}, 1, ITS_END),
        ({"background": True}, 1, ANYTHING),
        ({"background": True, "stream": True}, 1, ANYTHING),
        ({"background": True, "stream": True}, 2, ITS_END),
    ],
)
async def test_nobody_is_told_of_a_response_or_its_end_before_it_is_kept(
    fields: dict[str, object], slow_at: int, unheard: str
) -> None:
    case = Case(slow_at=slow_at)
    async with listening(case.service) as url, httpx.AsyncClient(base_url=url) as client, asyncio.TaskGroup() as group:
        group.create_task(case.hear(client, "POST", PATH, json=BODY | fields))
        async with case.stuck():
            early = list(case.heard)

    assert not any(unheard in line for line in early)
    assert len(case.heard) > len(early)


async def test_a_client_that_comes_back_hears_the_end_once_it_is_kept() -> None:
    case = Case(slow_at=1)
    async with listening(case.service) as url, httpx.AsyncClient(base_url=url) as client, asyncio.TaskGroup() as group:
        first = group.create_task(case.hear(client, "POST", PATH, json=BODY | {"stream": True}))
        async with case.stuck():
            first.cancel()
            begun = next(line.removeprefix("id: ") for line in case.heard if line.startswith("id: "))
            said = len(case.heard)
            back = {"last-event-id": begun}
            group.create_task(case.hear(client, "POST", PATH, json=BODY | {"stream": True}, headers=back))
            await asyncio.sleep(0.2)
            early = case.heard[said:]

    assert early == []
    assert ITS_END in case.heard[said:]


async def test_a_cancelled_response_is_told_of_once_it_is_kept() -> None:
    case = Case(slow_at=2, gate=asyncio.Event())
    async with listening(case.service) as url, httpx.AsyncClient(base_url=url) as client, asyncio.TaskGroup() as group:
        id = (await client.post(PATH, json=BODY | {"background": True})).json()["id"]
        group.create_task(case.hear(client, "POST", f"{PATH}/{id}/cancel"))
        async with case.stuck():
            early = list(case.heard)

    assert early == []
    assert '"status":"cancelled"' in case.heard[-1]
