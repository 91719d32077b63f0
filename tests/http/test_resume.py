"""Streams that are resumed, over real sockets: on every endpoint, by their own client, and by nobody else."""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest

from server.recorder import Endpoint, Outcome
from tests.fakes import FakeEngine, Script, make_service, make_settings
from tests.http.clients import frames_of, listening
from tests.http.test_disconnects import until

pytestmark = pytest.mark.anyio
Frames = list[dict[str, str]]
TURN = {"model": "org/tiny", "messages": [{"role": "user", "content": "hello"}]}
BODIES: dict[str, dict[str, Any]] = {
    "/v1/chat/completions": TURN | {"max_tokens": 6, "n": 2, "stream_options": {"include_usage": True}},
    "/v1/completions": {"model": "org/tiny", "prompt": ["hello", "you"], "max_tokens": 6},
    "/v1/messages": TURN | {"max_tokens": 6},
}
ENDPOINTS = {
    "/v1/chat/completions": Endpoint.CHAT_COMPLETIONS,
    "/v1/completions": Endpoint.COMPLETIONS,
    "/v1/messages": Endpoint.MESSAGES,
}


class Case:
    """A server whose model says two tokens of each choice, and the others once `gate` is open."""

    def __init__(self, path: str, **settings: Any) -> None:
        self.path = path
        self.gate = asyncio.Event()
        self.engine = FakeEngine(script=lambda _request, _choice: Script(gate=self.gate, gate_at=2))
        self.service = make_service(self.engine, settings=make_settings(**settings))

    @asynccontextmanager
    async def client(self) -> AsyncIterator[httpx.AsyncClient]:
        async with listening(self.service) as url, httpx.AsyncClient(base_url=url) as client:
            yield client

    async def begin(self, client: httpx.AsyncClient, *, num_frames: int = 3, **headers: str) -> Frames:
        """Some first events; then the client leaves."""
        received = ""
        body = BODIES[self.path] | {"stream": True}
        async with client.stream("POST", self.path, json=body, headers=headers) as answer:
            assert answer.status_code == 200
            async for part in answer.aiter_text():
                received += part
                if received.count("\n\n") >= num_frames:
                    break
        await until(lambda: all(stream.parked for stream in self.engine.opened))
        return frames_of(received)[:num_frames]

    async def resume(self, client: httpx.AsyncClient, last: str, **headers: str) -> httpx.Response:
        return await client.post(self.path, headers={"last-event-id": last, **headers})

    @property
    def outcomes(self) -> dict[Outcome, int]:
        totals = self.service.requests.view().totals
        return {outcome: totals[ENDPOINTS[self.path], outcome] for outcome in Outcome}


def numbers(frames: Frames) -> list[int]:
    return [int(frame["id"].rpartition(":")[2]) for frame in frames]


@pytest.mark.parametrize("path", BODIES)
async def test_a_client_that_comes_back_gets_the_rest(path: str) -> None:
    case = Case(path)

    async with case.client() as client:
        first = await case.begin(client)
        case.gate.set()
        answer = await case.resume(client, first[-1]["id"])
        again = await case.resume(client, first[-1]["id"])
        whole = await client.post(path, json=BODIES[path] | {"stream": True})

    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/event-stream")
    resumed = first + frames_of(answer.text)
    expected = frames_of(whole.text)
    assert numbers(resumed) == list(range(len(resumed)))
    assert [frame.get("event") for frame in resumed] == [frame.get("event") for frame in expected]
    assert len({frame["id"].rpartition(":")[0] for frame in resumed}) == 1
    assert answer.text == again.text
    assert len(case.engine.opened) == 2 * len(BODIES[path].get("prompt", [""]))
    assert case.outcomes[Outcome.FINISHED] == 2


@pytest.mark.parametrize("path", BODIES)
@pytest.mark.parametrize("last", ["{id}:999999", "{id}:-1", "{id}:", "{id}", "other:0", "", ":", "{id}:1:1"])
async def test_what_was_never_sent_is_not_found_and_starts_nothing(path: str, last: str) -> None:
    case = Case(path)

    async with case.client() as client:
        first = await case.begin(client)
        id = first[0]["id"].rpartition(":")[0]
        num_opened = len(case.engine.opened)
        answer = await case.resume(client, last.format(id=id))

    assert answer.status_code == 404
    assert "error" in answer.json()
    assert len(case.engine.opened) == num_opened


async def test_a_stream_is_resumed_at_its_own_path_alone() -> None:
    case = Case("/v1/chat/completions")

    async with case.client() as client:
        [*_, last] = await case.begin(client)
        elsewhere = await client.post("/v1/completions", headers={"last-event-id": last["id"]})
        case.gate.set()
        without_prefix = await client.post("/chat/completions", headers={"last-event-id": last["id"]})

    assert (elsewhere.status_code, without_prefix.status_code) == (404, 200)
    assert elsewhere.json()["error"]["code"] == "stream_not_found"


async def test_a_stream_is_resumed_with_its_own_key_alone() -> None:
    case = Case("/v1/chat/completions", api_keys=("mine", "yours"))

    async with case.client() as client:
        [*_, last] = await case.begin(client, authorization="Bearer mine")
        case.gate.set()
        others = await case.resume(client, last["id"], authorization="Bearer yours")
        nobodys = await case.resume(client, last["id"])
        mine = await case.resume(client, last["id"], authorization="Bearer mine")
        mine_again = await case.resume(client, last["id"], **{"x-api-key": "mine"})

    assert [answer.status_code for answer in (others, nobodys, mine, mine_again)] == [404, 401, 200, 200]


async def test_a_stream_that_is_left_too_long_is_gone_and_counted() -> None:
    case = Case("/v1/chat/completions", resume_seconds=0.01)

    async with case.client() as client:
        [*_, last] = await case.begin(client)
        await until(lambda: case.engine.opened[0].closed)
        answer = await case.resume(client, last["id"])

    assert answer.status_code == 404
    assert case.outcomes[Outcome.ABORTED] == 1


async def test_a_newer_client_takes_a_stream_over_from_the_older(caplog: pytest.LogCaptureFixture) -> None:
    case = Case("/v1/chat/completions")
    body = BODIES[case.path] | {"stream": True}

    async with case.client() as client, client.stream("POST", case.path, json=body) as older:
        parts = older.aiter_text()
        received = ""
        while received.count("\n\n") < 6:
            received += await anext(parts)
        async with asyncio.TaskGroup() as group:
            newer = group.create_task(case.resume(client, frames_of(received)[0]["id"]))
            with pytest.raises(httpx.TransportError):  # never an end that could be taken for the answer's own
                await anext(parts)
            case.gate.set()

    frames = frames_of(newer.result().text)
    assert numbers(frames) == list(range(1, len(frames) + 1))
    assert frames[-1]["data"] == "[DONE]"
    assert case.engine.opened[0].num_parks == 0
    assert case.outcomes[Outcome.FINISHED] == 1
    assert [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING] == []


async def test_the_line_of_a_resumed_request_in_the_log_has_its_tokens(caplog: pytest.LogCaptureFixture) -> None:
    case = Case("/v1/chat/completions")

    with caplog.at_level("INFO"):
        async with case.client() as client:
            [*_, last] = await case.begin(client)
            case.gate.set()
            await case.resume(client, last["id"])

    lines = [vars(record)["fields"] for record in caplog.records if record.name == "tidemark.tests"]
    assert [(line["complete"], line["outcome"]) for line in lines] == [(False, "parked"), (None, "finished")]
    assert lines[1]["output_tokens"] == 12
