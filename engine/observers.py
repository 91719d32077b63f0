"""Observers: who is told of every step once it is published. Without any, no step does anything for them."""

from collections.abc import Callable, Mapping, Reversible
from dataclasses import dataclass
from functools import partial

from engine.cache.tables import BlockTables
from engine.roster import Roster
from engine.stats import StepRecord
from engine.step import Advance, Plan
from engine.view import Issued, OwnedBlocks, issued_blocks, step_record


@dataclass(frozen=True, slots=True)
class _Observer:
    note: Callable[[StepRecord], None]
    with_tables: bool


class Observers:
    """Their list. Block tables are made for a step where anybody wants them; who only counts does without."""

    def __init__(self) -> None:
        self._observers: list[_Observer] = []

    def add(self, note: Callable[[StepRecord], None], *, with_tables: bool) -> Callable[[], None]:
        """Call `note` with every record, until what is returned is called."""
        observer = _Observer(note, with_tables)
        self._observers.append(observer)
        return partial(self._observers.remove, observer)

    def blocks_of(self, plan: Plan, roster: Roster, tables: BlockTables) -> Mapping[str, OwnedBlocks]:
        """The block tables of a step that is in flight, if anybody wants them."""
        wanted = any(observer.with_tables for observer in self._observers)
        return issued_blocks(plan, roster, tables) if wanted else {}

    def tell(self, issued: Issued, advances: Reversible[Advance]) -> None:
        """Tell everybody of a step that is published."""
        if not self._observers:
            return
        record = step_record(issued, advances)
        for observer in tuple(self._observers):
            observer.note(record)
