import asyncio
from collections.abc import Iterable

import pytest
from starlette.types import Message

from engine.errors import StepFailed
from engine.request import Request, Sampling, Stopping
from server.account import Account
from server.errors import ApiError
from server.events import Event, encode
from server.recorder import Endpoint, Outcome, RequestMetrics
from server.sse import COMMENT, EventStream
from server.streams import Arrival, open_streams
from tests.fakes import FakeEngine, Script

pytestmark = pytest.mark.anyio
LONG = 3600.0  # seconds that no test waits


class Plain:
    """Renders the text alone."""

    id = "told"

    def __init__(self, *, broken: bool = False) -> None:
        self._broken = broken

    def first(self) -> Iterable[Event]:
        return (Event(b"begun", "first"),)

    def feed(self, arrival: Arrival) -> Iterable[Event]:
        if self._broken:
            raise ZeroDivisionError
        return [Event(letter.encode()) for letter in arrival.delta.text]

    def last(self) -> Iterable[Event]:
        return (Event(b"end", "last"),)

    def failed(self, error: ApiError) -> Iterable[Event]:
        return (Event(f"{error.body['type']} {error.body['code']}".encode(), "error"),)


def said(number: int, data: str, name: str = "") -> bytes:
    """An event as it is sent."""
    return encode(Event(data.encode(), name or None), f"told:{number}")


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
        self, script: Script, *, keep_alive: float = LONG, send: float = LONG, broken: bool = False, prompts: int = 1
    ) -> None:
        self.engine = FakeEngine(script=lambda _request, _choice: script)
        self.metrics = RequestMetrics()
        self.connection = Connection()
        requests = [Request(str(n), (1,), Sampling(seed=0), Stopping(max_tokens=3)) for n in range(prompts)]
        self.response = EventStream(
            open_streams(self.engine, requests, param="prompt"),
            Plain(broken=broken),
            Account(self.metrics, Endpoint.COMPLETIONS, None),
            keep_alive_seconds=keep_alive,
            send_seconds=send,
        )

    async def run(self) -> None:
        await self.response({"type": "http"}, self.connection.receive, self.connection.send)

    @property
    def outcomes(self) -> list[Outcome]:
        totals = self.metrics.view().totals
        return [outcome for (_, outcome), count in totals.items() for _ in range(count)]

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
        said(0, "begun", "first"), said(1, "a"), said(2, "b"), said(3, "c"), said(4, "end", "last")
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


@pytest.mark.parametrize("prompts", [1, 3])
async def test_a_client_that_leaves_closes_the_stream_while_it_waits(prompts: int) -> None:
    case = Case(Script(gate=asyncio.Event(), gate_at=1), prompts=prompts)

    async with asyncio.TaskGroup() as group:
        group.create_task(case.run())
        await case.connection.wait_for(said(prompts, "a"))
        case.connection.gone.set()

    assert all(stream.closed for stream in case.engine.opened)
    assert case.outcomes == [Outcome.ABORTED]
    assert b"data: end" not in case.connection.body


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
    assert case.outcomes == [Outcome.FAILED]
    assert not case.complete


async def test_a_client_that_does_not_read_a_comment_is_given_up_too() -> None:
    case = Case(Script(gate=asyncio.Event()), send=0.01, keep_alive=0.01)
    case.connection.reads.clear()

    await case.run()

    assert case.engine.opened[0].closed
    assert case.outcomes == [Outcome.FAILED]


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


@pytest.mark.parametrize("prompts", [1, 3])
async def test_a_failure_of_the_engine_is_the_last_event(prompts: int) -> None:
    case = Case(Script(failure=StepFailed(request_id="x", cause="boom"), failure_at=1), prompts=prompts)

    await case.run()

    assert case.connection.sent[-1]["body"].endswith(b"event: error\ndata: server_error step_failed\n\n")
    assert b"data: end" not in case.connection.body
    assert case.complete
    assert case.outcomes == [Outcome.FAILED]


async def test_a_fault_of_our_own_is_logged_and_told_without_its_details(caplog: pytest.LogCaptureFixture) -> None:
    case = Case(Script(), broken=True)

    await case.run()

    assert case.connection.sent[-1]["body"] == said(1, "server_error None", "error")
    assert b"ZeroDivision" not in case.connection.body
    assert "ZeroDivisionError" in caplog.text
    assert case.engine.opened[0].closed


async def test_a_server_that_is_cancelled_closes_the_stream() -> None:
    case = Case(Script(gate=asyncio.Event()))

    async with asyncio.TaskGroup() as group:
        running = group.create_task(case.run())
        await case.connection.changed.wait()
        running.cancel()

    assert case.engine.opened[0].closed
    assert case.outcomes == [Outcome.ABORTED]
