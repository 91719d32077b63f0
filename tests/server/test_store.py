import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from server.store import Kept, Store, StoreFailed

pytestmark = pytest.mark.anyio
LONG = 3600.0


class Case:
    """A store whose time stands still unless a test moves `now`."""

    def __init__(self, path: Path | None = None, *, max_bytes: int = 1 << 20, seconds: float = LONG) -> None:
        self.now = 1000.0
        self.store = Store(
            None if path is None else str(path), seconds=seconds, max_bytes=max_bytes, clock=lambda: self.now
        )

    def keep(self, id: str, *, owner: str = "me", **fields: Any) -> Kept:
        self.now += 1
        kept = a_response(id, **fields)
        self.store.keep(kept, owner=owner)
        return kept

    async def known(self, *ids: str, owner: str = "me") -> list[bool]:
        return [await self.store.get(id, owner=owner) is not None for id in ids]


@asynccontextmanager
async def a_case(path: Path | None = None, **limits: Any) -> AsyncIterator[Case]:
    case = Case(path, **limits)
    try:
        yield case
    finally:
        case.store.close()


def a_response(id: str, *, previous: str | None = None, status: str = "completed", text: str = "hi") -> Kept:
    body: Any = {
        "id": id,
        "previous_response_id": previous,
        "status": status,
        "error": None,
        "output": [an_item(f"{id}-out", text)],
    }
    return Kept(body, [an_item(f"{id}-in", text)])


def an_item(id: str, text: str) -> Any:
    return {"id": id, "type": "message", "content": [{"text": text}]}


async def test_what_is_kept_is_found_by_its_owner_and_by_nobody_else() -> None:
    async with a_case() as case:
        kept = case.keep("a")

        assert await case.store.get("a", owner="me") == kept
        assert await case.known("a", owner="you") == [False]
        assert await case.known("b") == [False]


async def test_a_response_that_is_kept_again_takes_the_place_of_the_first() -> None:
    async with a_case() as case:
        case.keep("a", status="queued")
        case.keep("a", status="completed")

        kept = await case.store.get("a", owner="me")

    assert kept is not None
    assert kept.finished


async def test_what_is_deleted_is_gone_with_its_items() -> None:
    async with a_case() as case:
        case.keep("a")

        deleted = [await case.store.delete("a", owner=owner) for owner in ("you", "me", "me")]

        assert deleted == [False, True, False]
        assert await case.known("a") == [False]
        assert await case.store.items(["a-in"], owner="me") == {}


async def test_a_conversation_is_all_that_came_before_the_first_first() -> None:
    async with a_case() as case:
        chain = [case.keep("a"), case.keep("b", previous="a"), case.keep("c", previous="b")]
        case.keep("other")

        assert await case.store.conversation("c", owner="me") == chain
        assert await case.store.conversation("a", owner="me") == chain[:1]


async def test_a_conversation_of_which_a_part_is_gone_is_not_found() -> None:
    async with a_case() as case:
        case.keep("a")
        case.keep("b", previous="a")
        await case.store.delete("a", owner="me")

        assert await case.store.conversation("b", owner="me") is None
        assert await case.known("b") == [True]


async def test_items_are_found_by_their_ids() -> None:
    async with a_case() as case:
        kept = case.keep("a")

        found = await case.store.items(["a-in", "a-out", "b-in"], owner="me")

        assert found == {"a-in": kept.input[0], "a-out": kept.body["output"][0]}
        assert await case.store.items(["a-in"], owner="you") == {}


async def test_what_was_not_used_for_too_long_is_forgotten() -> None:
    async with a_case(seconds=10.0) as case:
        case.keep("a")
        case.now += 8
        case.keep("b")
        case.now += 5

        assert await case.known("a", "b") == [False, True]


async def test_a_conversation_that_goes_on_is_used() -> None:
    async with a_case(seconds=10.0) as case:
        case.keep("a")
        case.now += 8
        await case.store.conversation("a", owner="me")
        case.now += 8

        assert await case.known("a") == [True]


async def test_of_too_many_bytes_those_that_were_not_used_for_longest_go() -> None:
    async with a_case(max_bytes=4000) as case:
        for id in ("a", "b", "c"):
            case.keep(id, text="x" * 500)
        case.now += 1
        await case.store.conversation("a", owner="me")

        case.keep("d", text="x" * 500)

        assert await case.known("a", "b", "c", "d") == [True, False, True, True]


async def test_one_that_is_larger_than_all_that_is_kept_is_not_kept() -> None:
    async with a_case(max_bytes=1000) as case:
        case.keep("a", text="x" * 5000)

        assert await case.known("a") == [False]


async def test_a_restart_loses_nothing_and_ends_what_ran(tmp_path: Path) -> None:
    path = tmp_path / "responses.db"
    async with a_case(path) as case:
        kept = case.keep("done")
        case.keep("running", status="in_progress")
        case.keep("waiting", status="queued")

    async with a_case(path) as case:
        assert await case.store.get("done", owner="me") == kept
        for id in ("running", "waiting"):
            ended = await case.store.get(id, owner="me")
            assert ended is not None
            assert ended.body["status"] == "failed"
            assert ended.body["error"] is not None


async def test_the_bytes_are_counted_on_after_a_restart(tmp_path: Path) -> None:
    path = tmp_path / "responses.db"
    async with a_case(path, max_bytes=3000) as case:
        case.keep("a", text="x" * 500)
        case.keep("b", text="x" * 500)

    async with a_case(path, max_bytes=3000) as case:
        case.now = 2000.0
        case.keep("c", text="x" * 500)

        assert await case.known("a", "b", "c") == [False, True, True]


async def test_no_second_server_opens_the_same_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "responses.db"
    connect = sqlite3.connect
    monkeypatch.setattr(sqlite3, "connect", partial(connect, timeout=0.01))
    async with a_case(path) as case:
        case.keep("a")
        await case.known("a")

        with pytest.raises(StoreFailed, match="locked"):
            Store(str(path), seconds=1.0, max_bytes=1)


def test_a_file_that_can_t_be_opened_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StoreFailed):
        Store(str(tmp_path / "nowhere" / "responses.db"), seconds=1.0, max_bytes=1)


async def test_a_response_that_can_t_be_kept_is_said_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    async with a_case() as case:
        case.store._database.execute("DROP TABLE items")

        case.keep("a")
        await case.known("a")

    assert "response_not_kept" in caplog.text
