"""What one place of the cache holds: whose it is, and the state of which tokens is in it. Reads, never writes."""

from engine.cache.tables import BlockTables
from engine.look import FREE_UNIT, Hold, UnitView
from engine.roster import Roster
from engine.sequence import Sequence


def unit_view(unit: int, roster: Roster, tables: BlockTables) -> UnitView | None:
    """One unit of the pool; None where it is free."""
    block = tables.pool.block_of(unit)
    if block is None:
        return None
    group = tables.pool.kind_of(block)
    owners = [sequence for sequence in roster if sequence.held.tables and block in sequence.held.tables[group].blocks]
    number, tokens = (
        tables.indexes[group].content_of(block) if not owners else _content(owners[0], block, group, tables)
    )
    start = number * tables.block_size
    return UnitView(
        block=block,
        units=tables.pool.units(block),
        hold=Hold.by(len(owners)),
        group=group,
        positions=(start, start + tables.block_size),
        owners=tuple(sequence.id for sequence in owners),
        tokens=tokens,
    )


def _content(owner: Sequence, block: int, group: int, tables: BlockTables) -> tuple[int, tuple[int, ...]]:
    """The block's number within a sequence that holds it, and the tokens whose state is there."""
    table, size = owner.held.tables[group], tables.block_size
    number = table.first + table.blocks.index(block)
    return number, tuple(owner.tokens[number * size : min((number + 1) * size, owner.ledger.computed)])


def slot_view(slot: int, roster: Roster, tables: BlockTables) -> UnitView | None:
    """One slot of recurrent states; None where it is free. A state stands behind all its positions."""
    states = tables.states
    if states.pool.codes()[slot] == FREE_UNIT:
        return None
    owners = [sequence for sequence in roster if slot in sequence.held.slots()]
    return UnitView(
        block=slot,
        units=(slot,),
        hold=Hold.by(len(owners)),
        group=None,
        positions=_stands_behind(slot, owners, tables),
        owners=tuple(sequence.id for sequence in owners),
        tokens=(),
    )


def _stands_behind(slot: int, owners: list[Sequence], tables: BlockTables) -> tuple[int, int] | None:
    """The positions that a state is made of; None where a step is still to write it."""
    if tables.states.index.knows(slot):
        number, _ = tables.states.index.content_of(slot)
        return 0, (number + 1) * tables.block_size
    live = next((owner for owner in owners if owner.held.slot == slot and owner.held.source is None), None)
    return None if live is None else (0, live.ledger.computed)
