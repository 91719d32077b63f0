"""A watcher: keeps what it is sent, and what follows from it."""

from collections.abc import Mapping
from typing import Any

import orjson

from engine.stats import Snapshot
from tests.http.clients import Json, frames_of

HOLDS = ("allocated", "shared", "cached")


class Watcher:
    """Applies snapshots as the page does."""

    def __init__(self) -> None:
        self.units = ""
        self.slots = ""
        self.tables: dict[str, list[tuple[int, list[int]]]] = {}  # by sequence and group: the first block, the units
        self.last: Json = {}
        self.rejections: list[Json] = []
        self.ended: list[str] = []
        self._widths: list[int] = []

    def apply_frame(self, frame: bytes) -> None:
        """What came as one event."""
        [fields] = frames_of(frame.decode())
        assert fields["event"] == "snapshot"
        self.apply(orjson.loads(fields["data"]))

    def apply(self, body: Json) -> None:
        """Take a snapshot."""
        if body["whole"]:
            self.tables = {}
            self._widths = [group["width"] for group in body["info"]["groups"]]
        self.units = applied(self.units, body["units"])
        self.slots = applied(self.slots, body.get("slots", {"states": ""}))
        self.tables = {each["id"]: self._tables(each) for each in body["sequences"]}
        self.rejections += body["rejections"]
        self.ended += [each["sequence"] for each in body["ended"]]
        self.last = body

    def _tables(self, sequence: Json) -> list[tuple[int, list[int]]]:
        known = self.tables.get(sequence["id"], [])
        tables = []
        for group, table in enumerate(sequence["tables"]):
            width = self._widths[group]
            before, units = known[group] if known else (table["first"], [])
            kept = units[(table["first"] - before) * width : (table["kept"] - before) * width]
            tables.append((table["first"], kept + table["units"]))
        return tables

    def holds(self) -> list[tuple[int | None, str]]:
        """Every unit's group and state."""
        return [hold_of(character) for character in self.units]

    def check(self, snapshot: Snapshot) -> None:
        """What is known from increments is what a ledger of this moment tells."""
        holds = self.holds()
        for state in ("free", *HOLDS):
            assert sum(hold == state for _, hold in holds) == getattr(snapshot.blocks, state)
        for group, counts in enumerate(snapshot.groups):
            for state in HOLDS:
                assert holds.count((group, state)) == getattr(counts, state)
        for state in ("free", *HOLDS):
            assert [hold for _, hold in map(hold_of, self.slots)].count(state) == getattr(snapshot.slots, state)
        views, unlisted = {view.id: view for view in snapshot.sequences}, self.last["unlisted"]
        for state, num_unlisted in unlisted.items():
            num_listed = sum(each["state"] == state for each in self.last["sequences"])
            assert num_listed + num_unlisted == sum(view.state == state for view in views.values())
        owners = [unit for tables in self.tables.values() for _, units in tables for unit in units]
        all_owners = not unlisted["running"] + unlisted["paused"]
        for sequence in self.last["sequences"]:
            view = views[sequence["id"]]
            marks = [sequence[mark] for mark in ("planned", "computed", "accepted", "published")]
            assert marks == list(view.marks)
            assert sequence["state"] == view.state
            for table, (first, units) in zip(view.tables, self.tables[view.id], strict=True):
                assert first == table.first
                width = self._widths[table.group]
                assert units[::width] == [block for block, _ in table.blocks]
                for block, count in table.blocks:
                    assert owners.count(block) == count if all_owners else 1 <= owners.count(block) <= count
                expected = {(table.group, "shared" if count > 1 else "allocated") for _, count in table.blocks}
                assert {holds[unit] for unit in units} == expected


def applied(before: str, codes: Mapping[str, Any]) -> str:  # JSON by its nature
    """The states of all places, once a snapshot's `codes` are put over those before."""
    if "states" in codes:
        states: str = codes["states"]
        return states
    for start, characters in codes["changed"]:
        before = before[:start] + characters + before[start + len(characters) :]
    return before


def hold_of(character: str) -> tuple[int | None, str]:
    """A place's group and state."""
    code = ord(character) - 48
    return (None, "free") if code == 0 else ((code - 1) // 3, HOLDS[(code - 1) % 3])
