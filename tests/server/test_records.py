import asyncio

import pytest
from anyio import CancelScope

from server.recorder import Endpoint
from server.records import Records
from server.telling import REQUEST_BYTES, TOKEN_BYTES, Telling
from tests.fakes import FakeEngine, Script
from tests.server.tellings import a_telling

pytestmark = pytest.mark.anyio
LONG = 3600.0
COMPLETIONS = Endpoint.COMPLETIONS
ONE = REQUEST_BYTES + TOKEN_BYTES


class Case:
    """Answers that wait after their first letter, of which each client leaves when it is told to."""

    def __init__(self, *, seconds: float = LONG, max_bytes: int = 1 << 20) -> None:
        self.records = Records(seconds=seconds, max_bytes=max_bytes)
        self.engine = FakeEngine(script=lambda _request, _choice: Script(gate=asyncio.Event(), gate_at=1))

    def open(self, id: str, *, owner: str = "") -> Telling:
        telling = a_telling(self.engine, self.records, id=id, owner=owner)
        self.records.add(telling)
        self.records.check()
        return telling

    async def leave(self, telling: Telling) -> None:
        """Listen to what there is, and leave."""
        with CancelScope() as scope:
            async with telling.listening(scope):
                self.records.check()
                scope.cancel()
                await asyncio.sleep(0)
        self.records.check()

    def known(self, *ids: str) -> list[bool]:
        return [self.records.find(id, endpoint=COMPLETIONS, owner="") is not None for id in ids]


async def test_an_answer_is_known_to_its_owner_at_its_own_endpoint() -> None:
    case = Case()
    mine = case.open("mine", owner="me")

    found = [
        case.records.find("mine", endpoint=endpoint, owner=owner)
        for endpoint, owner in ((COMPLETIONS, "me"), (COMPLETIONS, "you"), (Endpoint.CHAT_COMPLETIONS, "me"))
    ]

    assert found == [mine, None, None]
    assert case.records.find("other", endpoint=COMPLETIONS, owner="me") is None


async def test_what_was_left_is_dropped_after_its_time() -> None:
    case = Case(seconds=0.01)
    telling = case.open("left")

    await case.leave(telling)
    assert case.known("left") == [True]
    async with asyncio.timeout(30):
        while not case.engine.opened[0].closed:  # noqa: ASYNC110  # a timer sets no event
            await asyncio.sleep(0.001)

    assert case.known("left") == [False]
    case.records.check()


async def test_who_is_back_in_time_is_not_dropped() -> None:
    case = Case(seconds=0.01)
    telling = case.open("back")
    await case.leave(telling)

    with CancelScope() as scope:
        async with telling.listening(scope):
            await asyncio.sleep(0.05)

    assert not case.engine.opened[0].closed


async def test_no_time_at_all_drops_what_is_left_at_once() -> None:
    case = Case(seconds=0.0)
    telling = case.open("left")

    await case.leave(telling)

    assert case.engine.opened[0].closed
    assert case.known("left") == [False]


async def test_what_was_left_first_makes_room_first() -> None:
    case = Case(max_bytes=3 * ONE)
    first, second, third = (case.open(id) for id in ("first", "second", "third"))
    for telling in (second, first, third):
        await case.leave(telling)

    case.open("fourth")

    assert case.known("first", "second", "third", "fourth") == [True, False, True, True]
    assert [stream.closed for stream in case.engine.opened] == [False, True, False, False]


async def test_where_all_have_clients_what_they_were_sent_is_forgotten() -> None:
    case = Case(max_bytes=2 * ONE + 100)
    first, second = case.open("first"), case.open("second")
    heard: list[bytes] = []

    async def write(frames: bytes) -> None:
        heard.append(frames)

    async with asyncio.timeout(30), asyncio.TaskGroup() as group:

        async def listen(telling: Telling) -> None:
            with CancelScope() as scope:
                async with telling.listening(scope):
                    await telling.tell(write, start=0)

        tasks = [group.create_task(listen(telling)) for telling in (first, second)]
        while len(heard) < 4:  # noqa: ASYNC110  # what was heard sets no event
            await asyncio.sleep(0)
        case.records.check()
        kept = [telling.record.since(0) is not None for telling in (first, second)]
        for task in tasks:
            task.cancel()

    assert kept == [False, True]
    assert case.known("first", "second") == [True, True]
