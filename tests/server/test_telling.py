import asyncio

import pytest
from anyio import CancelScope

from engine.errors import StepFailed
from server.recorder import Outcome, RequestMetrics
from server.records import Records
from server.telling import Forgotten, Telling
from tests.fakes import FakeEngine, Script
from tests.server.tellings import a_telling, outcomes_of, said

pytestmark = pytest.mark.anyio
WHOLE = [said(0, "begun", "first"), said(1, "a"), said(2, "b"), said(3, "c"), said(4, "end", "last")]


class Listener:
    """A client: what it heard, and when it leaves."""

    def __init__(self, telling: Telling, *, start: int = 0, leaves_after: int | None = None) -> None:
        self.heard: list[bytes] = []
        self.scope = CancelScope()
        self._telling = telling
        self._start = start
        self._leaves_after = leaves_after

    async def write(self, frames: bytes) -> None:
        self.heard.append(frames)
        if len(self.heard) == self._leaves_after:
            self.scope.cancel()
        await asyncio.sleep(0)

    async def listen(self) -> None:
        with self.scope:
            async with self._telling.listening(self.scope):
                await self._telling.tell(self.write, start=self._start)


class Case:
    """An answer, who keeps it, and its engine."""

    def __init__(self, script: Script | None = None, *, num_prompts: int = 1, broken: bool = False) -> None:
        self.engine = FakeEngine(script=lambda _request, _choice: script or Script())
        self.metrics = RequestMetrics()
        self.records = Records(seconds=3600.0, max_bytes=1 << 20)
        self.telling = a_telling(
            self.engine, self.records, metrics=self.metrics, num_prompts=num_prompts, broken=broken
        )
        self.records.add(self.telling)

    async def hear(self, *, start: int = 0, leaves_after: int | None = None) -> list[bytes]:
        listener = Listener(self.telling, start=start, leaves_after=leaves_after)
        await listener.listen()
        self.records.check()
        return listener.heard


@pytest.mark.parametrize("leaves_after", [1, 2, 3, 4, 5])
async def test_a_client_that_comes_back_gets_the_rest_nothing_twice_and_nothing_lost(leaves_after: int) -> None:
    case = Case()

    first = await case.hear(leaves_after=leaves_after)
    rest = await case.hear(start=leaves_after)

    assert first + rest == WHOLE
    assert case.engine.opened[0].num_parks == (leaves_after < 5)
    assert outcomes_of(case.metrics) == [Outcome.ABORTED if leaves_after == 5 else Outcome.FINISHED]


@pytest.mark.parametrize("start", range(6))
async def test_what_did_not_arrive_is_said_again(start: int) -> None:
    case = Case()
    await case.hear(leaves_after=3)

    assert await case.hear(start=min(start, 3)) == WHOLE[min(start, 3) :]
    assert await case.hear(start=min(start, 5)) == WHOLE[start:]


@pytest.mark.parametrize("leaves_after", range(1, 11))
async def test_no_prompt_of_several_loses_anything_when_the_client_leaves(leaves_after: int) -> None:
    case = Case(num_prompts=3)

    first = await case.hear(leaves_after=leaves_after)
    rest = await case.hear(start=leaves_after)

    letters = [frame.split(b"data: ")[1].strip() for frame in first + rest]
    assert sorted(letters[1:-1]) == sorted([b"a", b"b", b"c"] * 3)
    assert letters[-1] == b"end"
    assert all(f"told:{number}\n".encode() in frame for number, frame in enumerate(first + rest))


async def test_while_nobody_is_there_the_request_is_parked() -> None:
    case = Case(Script(gate=asyncio.Event(), gate_at=1))
    listener = Listener(case.telling, leaves_after=2)

    await listener.listen()

    stream = case.engine.opened[0]
    assert (stream.parked, stream.closed) == (True, False)
    assert outcomes_of(case.metrics) == []


async def test_a_newer_client_takes_the_answer_over() -> None:
    gate = asyncio.Event()
    case = Case(Script(gate=gate, gate_at=1))
    older, newer, newest = (Listener(case.telling, start=start) for start in (0, 1, 2))

    async with asyncio.timeout(30), asyncio.TaskGroup() as group:
        group.create_task(older.listen())
        while len(older.heard) < 2:  # noqa: ASYNC110  # what was heard sets no event
            await asyncio.sleep(0)
        group.create_task(newer.listen())
        group.create_task(newest.listen())
        await asyncio.sleep(0)
        gate.set()

    assert older.heard == WHOLE[:2]
    assert newer.heard == []
    assert newest.heard == WHOLE[2:]
    assert case.engine.opened[0].num_parks == 0


async def test_an_error_is_told_in_the_renderers_own_words_and_again_to_who_comes_back() -> None:
    case = Case(Script(failure=StepFailed(request_id="x", cause="boom"), failure_at=1))

    heard = await case.hear()

    error = said(2, "server_error step_failed", "error")
    assert heard == [*WHOLE[:2], error]
    assert await case.hear(start=2) == [error]
    assert outcomes_of(case.metrics) == [Outcome.FAILED]


async def test_a_fault_of_our_own_is_logged_and_told_without_its_details(caplog: pytest.LogCaptureFixture) -> None:
    case = Case(broken=True)

    heard = await case.hear()

    assert heard[-1] == said(1, "server_error None", "error")
    assert "ZeroDivisionError" in caplog.text
    assert case.engine.opened[0].closed


async def test_what_is_forgotten_is_not_skipped() -> None:
    case = Case()
    await case.hear(leaves_after=2)
    case.telling.record.forget()

    with pytest.raises(Forgotten):
        await case.hear(start=1)


async def test_who_comes_too_late_hears_nothing() -> None:
    case = Case()
    await case.hear(leaves_after=2)
    case.telling.drop()

    with pytest.raises(Forgotten):
        await case.hear(start=2)

    assert case.engine.opened[0].closed
    assert outcomes_of(case.metrics) == [Outcome.ABORTED]
