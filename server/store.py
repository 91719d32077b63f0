"""Store: responses that are kept, in SQLite, bounded in time and bytes. One thread has the database."""

import asyncio
import logging
import sqlite3
import time
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, TypeVar

import orjson

from server.wire.response_bodies import ItemBody, ResponseBody

MEMORY = ":memory:"
MAX_CHAIN = 10_000  # responses of one conversation

T = TypeVar("T")
log = logging.getLogger(__name__)

# What refers to a response by its id does so without a foreign key: an answer outlives those before it.
_SCHEMA = """
CREATE TABLE IF NOT EXISTS responses (
    id TEXT PRIMARY KEY, owner TEXT NOT NULL, previous TEXT, used REAL NOT NULL, bytes INTEGER NOT NULL,
    finished INTEGER NOT NULL, body BLOB NOT NULL, input BLOB NOT NULL
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS responses_by_use ON responses (used);
CREATE TABLE IF NOT EXISTS items (
    id TEXT NOT NULL, owner TEXT NOT NULL, response TEXT NOT NULL REFERENCES responses (id) ON DELETE CASCADE,
    PRIMARY KEY (id, owner)
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS items_by_response ON items (response);
"""


class StoreFailed(Exception):
    """The database can't be opened."""


@dataclass(frozen=True, slots=True)
class Kept:
    """A response, and the items that its client put in."""

    body: ResponseBody
    input: list[ItemBody]

    @property
    def items(self) -> list[ItemBody]:
        """What was said in it, by the client and by the model."""
        return [*self.input, *self.body["output"]]

    @property
    def previous(self) -> str | None:
        """The response before it in the conversation."""
        return self.body["previous_response_id"]

    @property
    def finished(self) -> bool:
        """Whether nothing of it is to come."""
        return self.body["status"] not in ("queued", "in_progress")


class Store:
    """Keeps responses of all owners apart. The one that was not used for longest goes first.

    What is asked for is done in the order of asking, so whoever was told of an answer finds it kept. Whoever is told
    once it is `settled` finds it in the file after the process's death too.
    """

    def __init__(
        self, path: str | None, *, seconds: float, max_bytes: int, clock: Callable[[], float] = time.time
    ) -> None:
        self._seconds = seconds
        self._max_bytes = max_bytes
        self._clock = clock
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="store")
        self._newest: Future[None] | None = None
        try:
            self._database = _open(path or MEMORY)
            self._num_bytes = self._sum_of_bytes()
            self._end_unfinished()
        except sqlite3.Error as error:
            raise StoreFailed(str(error)) from error

    # -- what the server asks ---------------------------------------------------------------------

    def keep(self, kept: Kept, *, owner: str) -> None:
        """Keep a response in place of what was kept under its id; returns at once."""
        body, given = orjson.dumps(kept.body), orjson.dumps(kept.input)
        self._newest = self._thread.submit(self._put, kept, owner, body, given, self._clock())
        self._newest.add_done_callback(_tell_failure)

    async def settled(self) -> None:
        """Return when all that was to be kept until now is, or can't be."""
        if self._newest is not None and not self._newest.done():
            await self._ask(lambda: None)

    async def get(self, id: str, *, owner: str) -> Kept | None:
        """A response of the owner's."""
        now = self._clock()
        return await self._ask(lambda: self._get(id, owner, now))

    async def delete(self, id: str, *, owner: str) -> bool:
        """Forget a response; whether there was one."""
        return await self._ask(lambda: self._delete(id, owner))

    async def conversation(self, id: str, *, owner: str) -> list[Kept] | None:
        """A response and all before it, the first first; None where one of them is not kept (any more)."""
        now = self._clock()
        return await self._ask(lambda: self._conversation(id, owner, now))

    async def items(self, ids: Iterable[str], *, owner: str) -> dict[str, ItemBody]:
        """Of these items the ones that are kept."""
        now = self._clock()
        return await self._ask(lambda: self._items(list(ids), owner, now))

    def close(self) -> None:
        """Finish what was asked for, and close the database."""
        self._thread.submit(self._database.close)
        self._thread.shutdown()

    async def _ask(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, work)

    # -- on the thread ----------------------------------------------------------------------------

    def _put(self, kept: Kept, owner: str, body: bytes, given: bytes, now: float) -> None:
        with self._database as database:
            self._forget_one(kept.body["id"])
            size = len(body) + len(given)
            row = (kept.body["id"], owner, kept.previous, now, size, kept.finished, body, given)
            database.execute("INSERT INTO responses VALUES (?, ?, ?, ?, ?, ?, ?, ?)", row)
            database.executemany(
                "INSERT OR REPLACE INTO items VALUES (?, ?, ?)",
                [(item["id"], owner, kept.body["id"]) for item in kept.items],
            )
            self._num_bytes += size
            self._keep_bounds(now)

    def _keep_bounds(self, now: float) -> None:
        """Forget what was not used for too long, and while there is too much what was not used for longest."""
        earliest = now - self._seconds
        while oldest := self._rows("SELECT id, used FROM responses ORDER BY used LIMIT 1"):
            [(id, used)] = oldest
            if used >= earliest and self._num_bytes <= self._max_bytes:
                return
            self._forget_one(id)

    def _forget_one(self, id: str) -> None:
        for (size,) in self._rows("SELECT bytes FROM responses WHERE id = ?", id):
            self._database.execute("DELETE FROM responses WHERE id = ?", (id,))
            self._num_bytes -= size

    def _get(self, id: str, owner: str, now: float) -> Kept | None:
        with self._database:
            self._keep_bounds(now)
        rows = self._rows("SELECT body, input FROM responses WHERE id = ? AND owner = ?", id, owner)
        return Kept(*map(orjson.loads, rows[0])) if rows else None

    def _delete(self, id: str, owner: str) -> bool:
        with self._database:
            found = bool(self._rows("SELECT 1 FROM responses WHERE id = ? AND owner = ?", id, owner))
            if found:
                self._forget_one(id)
            return found

    def _conversation(self, id: str, owner: str, now: float) -> list[Kept] | None:
        chain: list[Kept] = []
        before: str | None = id
        while before is not None and len(chain) < MAX_CHAIN:
            kept = self._get(before, owner, now)
            if kept is None:
                return None
            chain.append(kept)
            before = kept.previous
        with self._database as database:
            used = [(now, kept.body["id"]) for kept in chain]
            database.executemany("UPDATE responses SET used = ? WHERE id = ?", used)
        return chain[::-1]

    def _items(self, ids: list[str], owner: str, now: float) -> dict[str, ItemBody]:
        found: dict[str, ItemBody] = {}
        for id in ids:
            for (response,) in self._rows("SELECT response FROM items WHERE id = ? AND owner = ?", id, owner):
                kept = self._get(response, owner, now)
                if kept is not None:
                    found |= {item["id"]: item for item in kept.items if item["id"] == id}
        return found

    def _sum_of_bytes(self) -> int:
        [(num_bytes,)] = self._rows("SELECT coalesce(sum(bytes), 0) FROM responses")
        return int(num_bytes)

    def _end_unfinished(self) -> None:
        """What ran in the background when the server ended will never finish."""
        for id, owner, body, given in self._rows("SELECT id, owner, body, input FROM responses WHERE NOT finished"):
            failed: ResponseBody = orjson.loads(body)
            failed["status"] = "failed"
            failed["error"] = {"code": "server_error", "message": "the server ended before the response was finished"}
            self._put(Kept(failed, orjson.loads(given)), owner, orjson.dumps(failed), given, self._clock())
            assert id == failed["id"], "a body has its own id"

    def _rows(self, query: str, *values: object) -> list[Any]:
        return self._database.execute(query, values).fetchall()


def _open(path: str) -> sqlite3.Connection:
    """The database, which no other process can open meanwhile."""
    database = sqlite3.connect(path, check_same_thread=False)  # made here, and then used on the store's thread alone
    database.execute("PRAGMA auto_vacuum = FULL")  # a file gives back what is forgotten
    database.execute("PRAGMA locking_mode = EXCLUSIVE")
    database.execute("PRAGMA journal_mode = WAL")
    database.execute("PRAGMA synchronous = NORMAL")  # a crash of the machine may lose the last ones, and breaks nothing
    database.execute("PRAGMA foreign_keys = ON")
    database.executescript(_SCHEMA)
    return database


def _tell_failure(done: Future[None]) -> None:
    """A response that can't be kept has been answered all the same: it is said in the log."""
    if (error := done.exception()) is not None:
        log.error("response_not_kept", exc_info=error, extra={"discreet": True})  # its words may be the client's
