import asyncio

import pytest
from starlette.requests import ClientDisconnect
from starlette.types import Message

from server.tasks import task_group, unless_gone

pytestmark = pytest.mark.anyio


class Client:
    """A client whose body has been read, and who may leave."""

    def __init__(self) -> None:
        self.gone = asyncio.Event()

    async def receive(self) -> Message:
        await self.gone.wait()
        return {"type": "http.disconnect"}


async def test_work_that_ends_first_has_its_result() -> None:
    async def work() -> int:
        await asyncio.sleep(0)
        return 7

    assert await unless_gone(Client().receive, work()) == 7


async def test_a_client_that_leaves_cancels_the_work() -> None:
    client = Client()
    cancelled = asyncio.Event()

    async def work() -> None:
        client.gone.set()
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    with pytest.raises(ClientDisconnect):
        await unless_gone(client.receive, work())

    assert cancelled.is_set()


async def test_an_error_of_the_work_comes_out_as_itself() -> None:
    async def work() -> None:
        raise LookupError("here")

    with pytest.raises(LookupError, match="here"):
        await unless_gone(Client().receive, work())


async def test_of_several_failures_the_first_is_raised() -> None:
    async def fail(error: Exception) -> None:
        raise error

    async def fail_twice() -> None:
        async with task_group() as group:
            group.start_soon(fail, LookupError())
            group.start_soon(fail, ValueError())

    with pytest.raises(LookupError):
        await fail_twice()
