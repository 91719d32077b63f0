"""Look: what a watcher sees of the engine again and again, and of one place in the cache."""

from dataclasses import dataclass
from enum import IntEnum

from engine.stats import Snapshot


class Hold(IntEnum):
    """Who has a unit of the pool that is not free: one owner; several; none, but its content is known."""

    ALLOCATED = 0
    SHARED = 1
    CACHED = 2

    @classmethod
    def by(cls, num_owners: int) -> "Hold":
        """That of a unit with so many owners."""
        return (cls.CACHED, cls.ALLOCATED, cls.SHARED)[min(num_owners, 2)]


FREE_UNIT = 0  # the code of a unit without content


def unit_code(kind: int, hold: Hold) -> int:
    """How a unit that is not free is shown in one byte; its `kind` is the cache group."""
    return 1 + len(Hold) * kind + hold


@dataclass(frozen=True, slots=True)
class UnitTable:
    """What a sequence holds of one cache group: its blocks' units, block after block, from block number `first` on."""

    first: int
    units: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Look:
    """What a watcher sees at one moment of the engine's clock: cheap enough to be taken a few times a second.

    The snapshot lists the first sequences of each state, without tables; theirs are in `tables`, by id. `units` and
    `slots` have a code for each.
    """

    at: float
    snapshot: Snapshot
    units: bytes
    slots: bytes
    tables: dict[str, tuple[UnitTable, ...]]


@dataclass(frozen=True, slots=True)
class UnitView:
    """What one unit of the pool, or one slot, holds: whose block it is, and what of which tokens is in it.

    `group` is None for a slot. `positions` are [start, stop): a block's own, or those behind which a state stands.
    """

    block: int
    units: tuple[int, ...]
    hold: Hold
    group: int | None
    positions: tuple[int, int] | None
    owners: tuple[str, ...]
    tokens: tuple[int, ...]
