"""Units: how each unit of the pool stands and who holds it. The snapshots tell what has changed; here it adds up."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from server.top.values import WRONG, Json, NoSight, count_of, shown_of, text_of

STATES = ("free", "allocated", "shared", "cached")
ZERO = ord("0")
NUM_HOLDS = 3  # that a unit of a group can be in: one owner, several, none


@dataclass(frozen=True, slots=True)
class Codes:
    """How units stand: all of them, or, where not `whole`, runs of those that changed, each with its first one."""

    whole: bool
    runs: tuple[tuple[int, bytes], ...]


@dataclass(frozen=True, slots=True)
class Table:
    """The units that a sequence holds of one cache group, from its block number `first` on.

    Those of block numbers below `kept` are as they were in the snapshot before; `units` follow.
    """

    first: int
    kept: int
    units: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Units:
    """All units at one moment: a code each as the server sends it, and each listed sequence's tables, all kept.

    `widths` are how many units a block of each cache group takes.
    """

    widths: tuple[int, ...]
    codes: bytes = b""
    tables: Mapping[str, tuple[Table, ...]] = field(default_factory=dict)

    def after(self, codes: Codes, tables: Mapping[str, tuple[Table, ...]]) -> "Units":
        """As they are one snapshot later. Raises NoSight where that does not fit."""
        return Units(
            self.widths,
            self._codes_after(codes),
            {sequence: tuple(self._tables_after(sequence, mine)) for sequence, mine in tables.items()},
        )

    def _codes_after(self, codes: Codes) -> bytes:
        if codes.whole:
            return b"".join(run for _, run in codes.runs)
        now = bytearray(self.codes)
        for first, run in codes.runs:
            now[first : first + len(run)] = run
        if len(now) != len(self.codes):
            raise NoSight("what answers tells of more units than there are")
        return bytes(now)

    def _tables_after(self, sequence: str, tables: tuple[Table, ...]) -> Iterator[Table]:
        if tables and len(tables) != len(self.widths):  # who waits has none
            raise NoSight("what answers tells of more cache groups than there are, or of fewer")
        before = self.tables.get(sequence)
        for group, table in enumerate(tables):
            if not before or table.kept <= table.first:
                yield Table(table.first, table.first, table.units)
                continue
            old, width = before[group], self.widths[group]
            stays = old.units[(table.first - old.first) * width : (table.kept - old.first) * width]
            yield Table(table.first, table.first, stays + table.units)

    def states(self, units: range) -> set[str]:
        """In which states those in the range are."""
        return {
            STATES[(code - 1) % NUM_HOLDS + 1] if code else STATES[0]
            for code in set(self.codes[units.start : units.stop])
        }

    def owners(self) -> dict[int, list[str]]:
        """Of each unit that a listed sequence holds, whose it is."""
        owners: dict[int, list[str]] = {}
        for sequence, tables in self.tables.items():
            for table in tables:
                for unit in table.units:
                    owners.setdefault(unit, []).append(sequence)
        return owners


@dataclass(frozen=True, slots=True)
class Unit:
    """What one unit holds: its block's state, group, owners and positions; `text` where the server lets it be seen."""

    number: int
    state: str
    group: int | None
    positions: tuple[int, int] | None  # the first, and the one behind the last
    owners: tuple[str, ...]
    text: str | None


def read_codes(body: Json) -> Codes:
    """How units stand. Raises what `WRONG` has."""
    if "states" in body:
        return Codes(whole=True, runs=((0, _codes(body["states"])),))
    return Codes(whole=False, runs=tuple((_place(first), _codes(letters)) for first, letters in body["changed"]))


def read_tables(bodies: list[Json]) -> tuple[Table, ...]:
    """A sequence's tables, one a cache group. Raises what `WRONG` has."""
    return tuple(
        Table(_place(body["first"]), _place(body["kept"]), tuple(map(_place, body["units"]))) for body in bodies
    )


def read_unit(body: Json) -> Unit:
    """What one unit holds. Raises NoSight."""
    try:
        return Unit(
            number=int(body["unit"]),
            state=text_of(body["state"]),
            group=count_of(body["group"]),
            positions=None if body["positions"] is None else _span(*body["positions"]),
            owners=tuple(map(text_of, body["owners"])),
            text=None if "text" not in body else shown_of(body["text"]),
        )
    except WRONG as error:
        raise NoSight("what answers does not tell what a unit holds") from error


def _span(first: int, stop: int) -> tuple[int, int]:
    return int(first), int(stop)


def _place(value: int) -> int:
    if int(value) < 0:
        raise ValueError(value)
    return int(value)


def _codes(letters: str) -> bytes:
    return bytes(ord(letter) - ZERO for letter in letters)
