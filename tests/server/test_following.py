import asyncio

import pytest
from anyio import CancelScope

from server.background import Background
from server.errors import ApiError
from server.following import Following
from server.recorder import Outcome, RequestMetrics
from server.records import Records
from server.telling import Forgotten, Telling
from tests.fakes import FakeEngine, Script
from tests.server.tellings import a_telling, outcomes_of, said

pytestmark = pytest.mark.anyio
WHOLE = [said(0, "begun", "first"), said(1, "a"), said(2, "b"), said(3, "c"), said(4, "end", "last")]


class Case:
    """An answer that runs in the background, as far as its gate lets it."""

    def __init__(self, *, gate_at: int = 1, broken: bool = False) -> None:
        self.gate = asyncio.Event()
        self.engine = FakeEngine(script=lambda _request, _choice: Script(gate=self.gate, gate_at=gate_at))
        self.metrics = RequestMetrics()
        self.records = Records(seconds=3600.0, max_bytes=1 << 20)
        self.background = Background()
        self.telling = a_telling(self.engine, self.records, metrics=self.metrics, broken=broken)
        self.records.add(self.telling)

    async def follow(self, *, start: int = 0) -> list[bytes]:
        heard: list[bytes] = []

        async def write(frames: bytes) -> None:
            heard.append(frames)
            await asyncio.sleep(0)

        follower = Following(self.telling)
        with CancelScope() as scope:
            async with follower.listening(scope):
                await follower.tell(write, start=start)
        return heard


async def test_an_answer_runs_to_its_end_without_a_client() -> None:
    case = Case()
    case.gate.set()

    async with case.background.running():
        case.background.start(case.telling)

    assert case.telling.ended
    assert case.telling.record.since(0) == WHOLE
    assert outcomes_of(case.metrics) == [Outcome.FINISHED]
    case.records.check()


async def test_any_number_of_clients_hear_what_was_said_and_what_is_said_then() -> None:
    case = Case()

    async with case.background.running(), asyncio.TaskGroup() as group:
        case.background.start(case.telling)
        early = group.create_task(case.follow())
        await asyncio.sleep(0)
        late = group.create_task(case.follow(start=2))
        await asyncio.sleep(0)
        case.gate.set()

    assert early.result() == WHOLE
    assert late.result() == WHOLE[2:]
    assert await case.follow(start=4) == WHOLE[4:]


async def test_a_client_that_leaves_changes_nothing() -> None:
    case = Case()

    async with case.background.running():
        case.background.start(case.telling)
        async with asyncio.TaskGroup() as group:
            follower = group.create_task(case.follow())
            await asyncio.sleep(0)
            follower.cancel()
        assert case.engine.opened[0].num_parks == 0
        case.gate.set()

    assert case.telling.ended


async def test_an_answer_that_is_stopped_ends_where_it_is() -> None:
    case = Case()

    async with case.background.running(), asyncio.TaskGroup() as group:
        case.background.start(case.telling)
        follower = group.create_task(case.follow())
        while case.telling.record.num_events < 2:  # noqa: ASYNC110  # what was said sets no event that stays
            await asyncio.sleep(0)
        case.telling.stop()
        case.gate.set()

    assert follower.result() == [*WHOLE[:2], said(2, "end", "last")]
    assert outcomes_of(case.metrics) == [Outcome.ABORTED]


async def test_what_is_forgotten_can_t_be_followed() -> None:
    case = Case()
    case.gate.set()
    async with case.background.running():
        case.background.start(case.telling)
    case.telling.record.forget()

    with pytest.raises(Forgotten):
        await case.follow()


async def test_who_follows_an_answer_that_is_dropped_is_not_left_waiting() -> None:
    case = Case()

    async def follow() -> None:
        with pytest.raises(Forgotten):
            await case.follow()

    async with asyncio.timeout(30), asyncio.TaskGroup() as group:
        group.create_task(follow())
        await asyncio.sleep(0)
        case.records.forget(case.telling)


async def test_nothing_starts_once_the_server_ends() -> None:
    case = Case()

    with pytest.raises(ApiError) as refused:
        case.background.start(case.telling)

    assert refused.value.status == 503
    assert case.engine.opened[0].closed
    assert not case.telling.alone


async def test_an_answer_that_breaks_ends_neither_the_others_nor_the_process(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken, whole = Case(), Case()
    whole.gate.set()

    async def fail(telling: Telling) -> None:
        raise ZeroDivisionError

    async with broken.background.running():
        with monkeypatch.context() as patch:
            patch.setattr(Telling, "run", fail)
            broken.background.start(broken.telling)
            await asyncio.sleep(0)
        broken.background.start(whole.telling)

    assert whole.telling.ended
    assert broken.engine.opened[0].closed
    assert "background_failed" in caplog.text
