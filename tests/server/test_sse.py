import asyncio

import pytest
from starlette.types import Message

from engine.errors import StepFailed
from server.recorder import Outcome, RequestMetrics
from server.records import Records
from server.sse import COMMENT, EventStream
from tests.fakes import FakeEngine, Script
from tests.server.tellings import a_telling, outcomes_of, said

pytestmark = pytest.mark.anyio
LONG = 3600.0  # seconds that no test waits


class Connection:
    """One client: what it was sent, when it leaves, and whether it reads."""

    def __init__(self) -> None:
        self.sent: list[Message] = []
        self.gone = asyncio.Event()
        self.reads = asyncio.Event()
        self.reads.set()
        self.changed = asyncio.Event()

    async def receive(self) -> Message:
        await self.gone.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.body":
            await self.reads.wait()
        self.sent.append(message)
        self.changed.set()

    @property
    def body(self) -> bytes:
        return b"".join(message.get("body", b"") for message in self.sent)

    async def wait_for(self, part: bytes) -> None:
        while part not in self.body:
            self.changed.clear()
            await self.changed.wait()


class Case:
    """An event stream over a fake engine, ready to run."""

    def __init__(
        self,
        script: Script,
        *,
        keep_alive: float = LONG,
        send: float = LONG,
        broken: bool = False,
        seconds: float = 0.0,
    ) -> None:
        self.engine = FakeEngine(script=lambda _request, _choice: script)
        self.records = Records(seconds=seconds, max_bytes=1 << 20)
        self.connection = Connection()
        self.metrics = RequestMetrics()
        self.telling = a_telling(self.engine, self.records, metrics=self.metrics, broken=broken)
        self.records.add(self.telling)
        self._keep_alive = keep_alive
        self._send = send

    def response(self, start: int = 0) -> EventStream:
        return EventStream(self.telling, start=start, keep_alive_seconds=self._keep_alive, send_seconds=self._send)

    async def run(self, start: int = 0) -> None:
        await self.response(start)({"type": "http"}, self.connection.receive, self.connection.send)

    @property
    def outcomes(self) -> list[Outcome]:
        return outcomes_of(self.metrics)

    @property
    def complete(self) -> bool:
        return not self.connection.sent[-1].get("more_body", True)


async def test_an_answer_is_sent_as_it_grows_and_closed() -> None:
    case = Case(Script())

    await case.run()

    start, *bodies = case.connection.sent
    assert start["status"] == 200
    assert dict(start["headers"])[b"content-type"].startswith(b"text/event-stream")
    assert b"content-length" not in dict(start["headers"])
    assert [body["body"] for body in bodies] == [
        said(0, "begun", "first"), said(1, "a"), said(2, "b"), said(3, "c"), said(4, "end", "last"), b""
    ]  # fmt: skip
    assert case.complete
    assert case.engine.opened[0].closed
    assert case.outcomes == [Outcome.FINISHED]


async def test_headers_and_what_comes_first_go_out_before_the_first_delta() -> None:
    gate = asyncio.Event()
    case = Case(Script(gate=gate))

    async with asyncio.TaskGroup() as group:
        group.create_task(case.run())
        await case.connection.wait_for(b"begun")
        sent = case.connection.body
        gate.set()

    assert sent == said(0, "begun", "first")
    assert case.complete


async def test_a_client_that_leaves_while_the_stream_waits_has_left_for_good_where_nothing_is_kept() -> None:
    case = Case(Script(gate=asyncio.Event(), gate_at=1))

    async with asyncio.TaskGroup() as group:
        group.create_task(case.run())
        await case.connection.wait_for(said(1, "a"))
        case.connection.gone.set()

    assert case.engine.opened[0].closed
    assert case.outcomes == [Outcome.ABORTED]
    assert b"data: end" not in case.connection.body


async def test_a_client_that_leaves_parks_what_can_be_resumed() -> None:
    case = Case(Script(gate=asyncio.Event(), gate_at=1), seconds=LONG)

    async with asyncio.TaskGroup() as group:
        group.create_task(case.run())
        await case.connection.wait_for(said(1, "a"))
        case.connection.gone.set()

    assert case.engine.opened[0].parked
    assert not case.engine.opened[0].closed
    assert case.outcomes == []


async def test_a_client_that_leaves_closes_the_stream_while_a_send_is_blocked() -> None:
    case = Case(Script())
    case.connection.reads.clear()

    async with asyncio.TaskGroup() as group:
        group.create_task(case.run())
        await case.connection.changed.wait()
        case.connection.gone.set()

    assert case.engine.opened[0].closed
    assert case.outcomes == [Outcome.ABORTED]


async def test_a_client_that_does_not_read_is_given_up() -> None:
    case = Case(Script(), send=0.01)
    case.connection.reads.clear()

    await case.run()

    assert case.engine.opened[0].closed
    assert case.outcomes == [Outcome.ABORTED]
    assert not case.complete


async def test_a_client_that_does_not_read_a_comment_is_given_up_too() -> None:
    case = Case(Script(gate=asyncio.Event()), send=0.01, keep_alive=0.01)
    case.connection.reads.clear()

    await case.run()

    assert case.engine.opened[0].closed
    assert not case.complete


async def test_silence_is_filled_with_comments() -> None:
    gate = asyncio.Event()
    case = Case(Script(gate=gate, gate_at=1), keep_alive=0.01)

    async with asyncio.TaskGroup() as group:
        group.create_task(case.run())
        await case.connection.wait_for(said(1, "a") + COMMENT + COMMENT)
        gate.set()

    assert case.connection.body.replace(COMMENT, b"").count(b"data: ") == 5
    assert not case.connection.body.endswith(COMMENT)


async def test_an_answer_without_silence_has_no_comments() -> None:
    case = Case(Script())

    await case.run()

    assert COMMENT not in case.connection.body


async def test_a_failure_of_the_engine_is_the_last_event() -> None:
    case = Case(Script(failure=StepFailed(request_id="x", cause="boom"), failure_at=1))

    await case.run()

    assert case.connection.body.endswith(said(2, "server_error step_failed", "error"))
    assert case.complete
    assert case.outcomes == [Outcome.FAILED]


async def test_an_answer_that_is_forgotten_leaves_the_connection_broken() -> None:
    case = Case(Script())
    case.telling.drop()

    await case.run()

    assert [message["type"] for message in case.connection.sent] == ["http.response.start"]


async def test_each_of_many_clients_that_come_back_at_once_has_headers_and_the_newest_has_the_rest() -> None:
    case = Case(Script(gate=asyncio.Event(), gate_at=1), seconds=LONG)
    older, newer, newest = (case.response(start=1) for _ in range(3))
    connections = [Connection() for _ in range(3)]

    async with asyncio.TaskGroup() as group:
        group.create_task(case.run())
        await case.connection.wait_for(said(1, "a"))
        for response, connection in zip((older, newer, newest), connections, strict=True):
            group.create_task(response({"type": "http"}, connection.receive, connection.send))
        await connections[-1].wait_for(said(1, "a"))
        connections[-1].gone.set()

    assert [connection.sent[0]["type"] for connection in connections] == ["http.response.start"] * 3
    assert [connection.body for connection in connections] == [b"", b"", said(1, "a")]


async def test_a_server_that_is_cancelled_closes_the_stream() -> None:
    case = Case(Script(gate=asyncio.Event()))

    async with asyncio.TaskGroup() as group:
        running = group.create_task(case.run())
        await case.connection.changed.wait()
        running.cancel()

    assert case.engine.opened[0].closed
    assert case.outcomes == [Outcome.ABORTED]
