import asyncio

import pytest

from server.events import Event
from server.record import Record

pytestmark = pytest.mark.anyio
A, B, C = (Event(letter) for letter in (b"a", b"b", b"c"))


def lines(frames: list[bytes] | None) -> list[str] | None:
    """What the frames say, without their ids."""
    return None if frames is None else [frame.decode().split("data: ")[1].strip() for frame in frames]


def test_events_are_numbered_from_0_without_gaps() -> None:
    record = Record("x")

    first, second = record.add([A, B]), record.add([C])

    assert first == b"id: x:0\ndata: a\n\nid: x:1\ndata: b\n\n"
    assert second == b"id: x:2\ndata: c\n\n"
    assert record.num_bytes == len(first) + len(second)


def test_what_came_since_a_number_is_given_again_however_often() -> None:
    record = Record("x")
    record.add([A, B, C])

    assert [lines(record.since(number)) for number in (0, 2, 3)] == [["a", "b", "c"], ["c"], []]
    assert lines(record.since(2)) == ["c"]


def test_what_has_not_been_said_yet_is_not_known() -> None:
    record = Record("x")
    record.add([A])

    assert record.since(2) is None


def test_what_is_forgotten_is_not_given_and_numbers_go_on() -> None:
    record = Record("x")
    size = len(record.add([A, B]))

    assert record.forget() == size
    assert record.num_bytes == 0
    assert record.add([C]) == b"id: x:2\ndata: c\n\n"
    assert [lines(record.since(number)) for number in (1, 2)] == [None, ["c"]]


async def test_who_waits_is_woken_by_what_is_added() -> None:
    record = Record("x")

    async with asyncio.timeout(30), asyncio.TaskGroup() as group:
        waiting = [group.create_task(record.grown()) for _ in range(2)]
        await asyncio.sleep(0)
        record.add([A])

    assert all(task.done() for task in waiting)
