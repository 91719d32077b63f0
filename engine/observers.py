"""Observers: who is told of every step once it is published, and of what befalls sequences. Without any, nobody."""

from collections.abc import Callable, Mapping, Reversible
from dataclasses import dataclass
from functools import partial

from engine.cache.tables import BlockTables
from engine.course import Moment
from engine.roster import Roster
from engine.sequence import Sequence
from engine.stats import StepRecord
from engine.step import Advance, Plan
from engine.view import Issued, OwnedBlocks, issued_blocks, step_record


@dataclass(frozen=True, slots=True)
class _Observer:
    note: Callable[[StepRecord], None]
    with_tables: bool
    hear: Callable[[str, Moment], None] | None


class Observers:
    """Their list. Block tables are made for a step where anybody wants them; who only counts does without."""

    def __init__(self) -> None:
        self._observers: list[_Observer] = []

    def add(
        self,
        note: Callable[[StepRecord], None],
        *,
        with_tables: bool,
        hear: Callable[[str, Moment], None] | None = None,
    ) -> Callable[[], None]:
        """Call `note` with every record and `hear` with every moment, until what is returned is called."""
        observer = _Observer(note, with_tables, hear)
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

    def hear(self, sequence: Sequence, moment: Moment) -> None:
        """Tell whoever wants to know what befell a sequence."""
        for observer in tuple(self._observers):
            if observer.hear is not None:
                observer.hear(sequence.id, moment)
