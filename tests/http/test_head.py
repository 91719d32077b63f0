import asyncio

import httpx
import pytest

from server.http_head import MAX_HEAD_BYTES
from tests.fakes import FakeEngine, make_service
from tests.http.clients import listening

BEGUN = b"GET /health HTTP/1.1\r\nhost: x\r\na: "
pytestmark = pytest.mark.anyio


async def answer_to(begun: bytes, rest: bytes) -> bytes:
    """The first line of the answer to a head whose beginning arrives alone, as it does from a slow client."""
    async with listening(make_service(FakeEngine())) as url, httpx.AsyncClient() as other:
        reader, writer = await asyncio.open_connection("127.0.0.1", httpx.URL(url).port)
        writer.write(begun)
        await writer.drain()
        await other.get(f"{url}/health")  # the server has read on, so it has read the beginning
        writer.write(rest)
        try:
            async with asyncio.timeout(30):  # a server without the bound waits for the end
                return await reader.readline()
        finally:
            writer.close()


@pytest.mark.parametrize("begun", [BEGUN, b"GET /"])
async def test_a_head_without_an_end_is_refused(begun: bytes) -> None:
    assert (await answer_to(begun, b"x" * (MAX_HEAD_BYTES + 1))).startswith(b"HTTP/1.1 400")


async def test_a_stream_that_is_asked_for_by_head_leaves_its_connection_open() -> None:
    async with listening(make_service(FakeEngine())) as url, httpx.AsyncClient(base_url=url) as client:
        for _ in range(3):
            assert (await client.head("/ledger/events")).status_code == 200
            assert (await client.get("/health")).status_code == 200


async def test_a_long_head_is_fine() -> None:
    end = b"\r\n\r\n"

    assert (await answer_to(BEGUN, b"x" * (MAX_HEAD_BYTES - len(end)) + end)).startswith(b"HTTP/1.1 200")
