"""Clients that leave, over real sockets: whatever they had asked for is closed, or parked, within a moment."""

import asyncio
import logging
import socket
from collections.abc import Callable
from dataclasses import replace

import httpx
import orjson
import pytest

from server.recorder import Endpoint, Outcome
from server.service import Service
from tests.fakes import INFO, FakeEngine, Script, make_service, make_settings
from tests.http.clients import listening

pytestmark = pytest.mark.anyio
PATIENCE_SECONDS = 30  # far beyond what anything here takes: reached only when something hangs


async def until(holds: Callable[[], bool]) -> None:
    """Let everything else run until it holds."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not holds():  # noqa: ASYNC110  # facts about others are waited for, they set no event
            await asyncio.sleep(0.001)


def aborted(service: Service, endpoint: Endpoint) -> int:
    return service.requests.view().totals[endpoint, Outcome.ABORTED]


def stuck(*, at: int) -> FakeEngine:
    """An engine that says `at` tokens of each choice and then no more."""
    return FakeEngine(script=lambda _request, _choice: Script(gate=asyncio.Event(), gate_at=at))


CHAT = {"model": "org/tiny", "messages": [{"role": "user", "content": "hello"}]}
TEXT = {"model": "org/tiny", "prompt": "hello"}


@pytest.mark.parametrize("fields", [{}, {"n": 3}, {"stream": True}, {"stream": True, "n": 3}])
@pytest.mark.parametrize("at", [0, 2])
async def test_a_chat_whose_client_left_is_closed(fields: dict[str, object], at: int) -> None:
    engine = stuck(at=at)
    service = make_service(engine, settings=make_settings(resume_seconds=0.0))

    async with listening(service) as url, httpx.AsyncClient(base_url=url) as client:
        async with asyncio.TaskGroup() as group:
            asking = group.create_task(client.post("/v1/chat/completions", json=CHAT | fields))
            await until(lambda: bool(engine.opened))
            asking.cancel()
        await until(lambda: engine.opened[0].closed)
        await until(lambda: aborted(service, Endpoint.CHAT_COMPLETIONS) == 1)

    assert len(engine.opened) == 1


@pytest.mark.parametrize("stream", [False, True])
async def test_all_prompts_of_a_client_that_left_are_closed(stream: bool) -> None:
    engine = stuck(at=1)
    service = make_service(engine, settings=make_settings(resume_seconds=0.0))

    async with listening(service) as url, httpx.AsyncClient(base_url=url) as client:
        body = TEXT | {"prompt": ["a", "b", "c"], "stream": stream}
        async with asyncio.TaskGroup() as group:
            asking = group.create_task(client.post("/v1/completions", json=body))
            await until(lambda: len(engine.opened) == 3)
            asking.cancel()
        await until(lambda: all(stream.closed for stream in engine.opened))
        await until(lambda: aborted(service, Endpoint.COMPLETIONS) == 1)


async def test_a_stream_that_is_left_midway_is_parked() -> None:
    engine = stuck(at=3)

    async with listening(make_service(engine)) as url, httpx.AsyncClient(base_url=url) as client:
        async with client.stream("POST", "/v1/chat/completions", json=CHAT | {"stream": True}) as answer:
            lines = answer.aiter_lines()
            while '"content":"c"' not in await anext(lines):
                pass
            assert not engine.opened[0].parked
        await until(lambda: engine.opened[0].parked)

    assert not engine.opened[0].closed


async def test_a_whole_answer_whose_client_leaves_is_not_parked() -> None:
    engine = stuck(at=3)

    async with listening(make_service(engine)) as url, httpx.AsyncClient(base_url=url) as client:
        async with asyncio.TaskGroup() as group:
            asking = group.create_task(client.post("/v1/chat/completions", json=CHAT))
            await until(lambda: bool(engine.opened))
            asking.cancel()
        await until(lambda: engine.opened[0].closed)

    assert engine.opened[0].num_parks == 0


STREAMS: dict[str, dict[str, object]] = {
    "/v1/chat/completions": {**CHAT, "max_tokens": 4000},
    "/v1/completions": {**TEXT, "max_tokens": 4000},
    "/v1/messages": {**CHAT, "max_tokens": 4000},
    "/v1/responses": {"model": "org/tiny", "input": "hello", "max_output_tokens": 4000},
}
HEAD = b"POST %s HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n"


def ask(client: socket.socket, url: str, path: str, body: dict[str, object]) -> None:
    """Ask for a stream, and read nothing."""
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)  # else the kernel takes it all
    client.connect(("127.0.0.1", int(url.rpartition(":")[2])))
    data = orjson.dumps(body | {"stream": True})
    client.sendall(HEAD % (path.encode(), len(data)) + data)


@pytest.mark.parametrize("path", STREAMS)
async def test_a_client_that_stops_reading_is_given_up_and_the_others_are_not_touched(
    path: str, caplog: pytest.LogCaptureFixture
) -> None:
    settings = make_settings()
    impatient = settings.engine.model_copy(update={"slow_reader_seconds": 0.3})
    engine = FakeEngine(info=replace(INFO, context_length=8192))
    service = make_service(engine, settings=settings.model_copy(update={"engine": impatient}))

    async with listening(service, send_buffer_bytes=4096) as url, httpx.AsyncClient(base_url=url) as client:
        with socket.socket() as deaf:
            ask(deaf, url, path, STREAMS[path])
            await until(lambda: bool(engine.opened))
            other = await client.post("/v1/completions", json=TEXT | {"max_tokens": 3})
            await until(lambda: engine.opened[0].parked)

    assert other.json()["choices"][0]["text"] == "abc"
    assert not engine.opened[0].ended
    assert [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING] == []


async def test_headers_of_a_stream_arrive_before_its_first_token() -> None:
    engine = stuck(at=0)

    async with (
        listening(make_service(engine)) as url,
        httpx.AsyncClient(base_url=url) as client,
        client.stream("POST", "/v1/chat/completions", json=CHAT | {"stream": True}) as answer,
    ):
        assert answer.status_code == 200
        assert answer.headers["content-type"].startswith("text/event-stream")
        assert not engine.opened[0].closed


async def test_comments_keep_a_silent_stream_alive() -> None:
    engine = stuck(at=1)
    service = make_service(engine, settings=make_settings(keep_alive_seconds=0.01))

    async with (
        listening(service) as url,
        httpx.AsyncClient(base_url=url) as client,
        client.stream("POST", "/v1/chat/completions", json=CHAT | {"stream": True}) as answer,
    ):
        lines = answer.aiter_lines()
        comments = 0
        while comments < 3:
            comments += (await anext(lines)) == ": keep-alive"


async def test_a_client_that_leaves_within_its_body_is_forgotten() -> None:
    engine = FakeEngine()
    service = make_service(engine)

    async with listening(service) as url, httpx.AsyncClient(base_url=url) as client:
        port = int(url.rpartition(":")[2])
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"POST /v1/completions HTTP/1.1\r\nhost: x\r\ncontent-length: 1000\r\n\r\n{")
        await writer.drain()
        writer.close()
        await until(lambda: aborted(service, Endpoint.COMPLETIONS) == 1)
        after = await client.post("/v1/completions", json=TEXT)

    assert after.status_code == 200
