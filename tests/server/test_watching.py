import asyncio
from collections.abc import Callable
from contextlib import ExitStack

import pytest
from anyio import CancelScope

from server.lookout import MAX_WATCHERS
from server.service import Service
from server.telling import Forgotten
from server.watching import Watching
from tests.fakes import FakeEngine, make_service
from tests.http.clients import frames_of
from tests.parts import a_request

pytestmark = pytest.mark.anyio


class Case:
    """One watcher of a fake engine, and what it was told."""

    def __init__(self, *, count: int | None = None, on_write: Callable[[], None] = lambda: None) -> None:
        self.engine = FakeEngine()
        self.service = make_service(self.engine)
        self.watching = Watching(self.service, self.service.loaded(), every=0.001, count=count)
        self.told = asyncio.Event()
        self.body = b""
        self._on_write = on_write

    async def write(self, data: bytes) -> None:
        self.body += data
        self.told.set()
        self._on_write()

    async def run(self) -> None:
        async with self.watching.listening(CancelScope()):
            await self.watching.tell(self.write, start=0)

    @property
    def events(self) -> list[tuple[str, str]]:
        return [(frame["event"], frame["data"]) for frame in frames_of(self.body.decode())]


async def test_a_watcher_is_told_as_much_as_it_asked_for() -> None:
    case = Case(count=1)

    await case.run()

    assert [name for name, _ in case.events] == ["snapshot", "end"]
    assert case.events[-1][1] == '{"reason":"count"}'
    assert case.engine.num_looks == 1


async def test_nothing_is_told_while_nothing_changes_and_the_end_at_once() -> None:
    case = Case()

    async with asyncio.TaskGroup() as group:
        group.create_task(case.run())
        await case.told.wait()
        await asyncio.sleep(0.01)
        case.service.lookout.close()

    assert [name for name, _ in case.events] == ["snapshot", "end"]
    assert case.events[-1][1] == '{"reason":"draining"}'


async def test_what_changes_is_told() -> None:
    case = Case(count=2)
    case.service.lookout._clock = iter(range(1000)).__next__  # every look is old by the next

    async with asyncio.TaskGroup() as group:
        group.create_task(case.run())
        await case.told.wait()
        case.engine.open(a_request((2, 3)))

    assert [name for name, _ in case.events] == ["snapshot", "snapshot", "end"]
    assert '"whole":false' in case.events[1][1]


async def test_an_engine_that_dies_ends_the_watching_and_says_so() -> None:
    case = Case()

    async with asyncio.TaskGroup() as group:
        group.create_task(case.run())
        await case.told.wait()
        case.service.fail()

    assert case.events[-1] == ("end", '{"reason":"engine_stopped"}')
    assert '"server":"engine_stopped"' in case.events[-2][1], "one last look"


async def test_who_comes_as_the_last_place_is_taken_is_let_go() -> None:
    case = Case()
    with ExitStack() as places:
        for _ in range(MAX_WATCHERS):
            places.enter_context(case.service.lookout.watching(case.engine))

        with pytest.raises(Forgotten):
            await case.run()


async def test_who_leaves_leaves_nothing_behind() -> None:
    case = Case(count=1)

    await case.run()

    assert _num_watchers(case.service) == 0


def _num_watchers(service: Service) -> int:
    return service.lookout._num_watchers
