import asyncio

import pytest
from starlette.types import Message

from server.connection import BREAK_OFF, break_off

pytestmark = pytest.mark.anyio


async def test_breaking_off_closes_the_connection_and_returns_once_it_is_closed() -> None:
    closed = asyncio.Event()
    waiting: list[Message] = [{"type": "http.request"}, {"type": "http.disconnect"}]

    async def receive() -> Message:
        await closed.wait()
        return waiting.pop(0)

    await break_off({"type": "http", "extensions": {BREAK_OFF: {"close": closed.set}}}, receive)

    assert waiting == []


async def test_a_connection_that_can_not_be_closed_is_left_to_its_server() -> None:
    async def receive() -> Message:
        raise AssertionError

    await break_off({"type": "http"}, receive)
