import asyncio
import threading
from collections.abc import Iterator

import pytest

from engine.thread import StepThread

pytestmark = pytest.mark.anyio


@pytest.fixture
def thread() -> Iterator[StepThread]:
    opened = StepThread("step")
    yield opened
    opened.close()


def name_and(value: int) -> tuple[str, int]:
    return threading.current_thread().name, value


def fail() -> None:
    raise ValueError("the step broke off")


async def test_a_function_runs_on_the_thread_and_its_result_comes_to_the_loop(thread: StepThread) -> None:
    assert await thread.start(name_and, 3) == ("step", 3)


async def test_a_failure_is_raised_where_it_is_awaited_and_ends_nothing_else(thread: StepThread) -> None:
    with pytest.raises(ValueError, match="broke off"):
        await thread.start(fail)

    assert await thread.start(name_and, value=4) == ("step", 4)


async def test_work_begins_before_it_is_awaited_and_one_ends_before_the_next_begins(thread: StepThread) -> None:
    begun, may_end = threading.Event(), threading.Event()
    order = list[str]()

    def first() -> None:
        begun.set()
        may_end.wait()
        order.append("first")

    futures = [thread.start(first), thread.start(order.append, "second")]
    begun.wait()
    may_end.set()
    await asyncio.gather(*futures)

    assert order == ["first", "second"]


async def test_a_result_that_nobody_waits_for_is_dropped(thread: StepThread) -> None:
    may_end = threading.Event()
    future = thread.start(may_end.wait)

    future.cancel()
    may_end.set()

    assert await thread.start(name_and, 5) == ("step", 5)


def test_a_result_for_a_loop_that_has_closed_is_dropped(thread: StepThread) -> None:
    may_end = threading.Event()

    async def leave() -> None:
        thread.start(may_end.wait)

    asyncio.run(leave())
    may_end.set()

    assert thread.run(name_and, 6) == ("step", 6)


def test_who_runs_a_function_gets_its_result_or_its_failure(thread: StepThread) -> None:
    assert thread.run(name_and, 1) == ("step", 1)
    with pytest.raises(ValueError, match="broke off"):
        thread.run(fail)


def test_closing_waits_for_what_runs() -> None:
    thread = StepThread("step")
    done = list[int]()
    asyncio.run(_start_only(thread, done))

    thread.close()

    assert done == [1]


async def _start_only(thread: StepThread, done: list[int]) -> None:
    thread.start(done.append, 1)
