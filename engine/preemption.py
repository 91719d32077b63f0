"""Preemption: a sequence loses its cache and keeps its output. The one place where that is done, counted and noted."""

from engine.cache.tables import BlockTables
from engine.course import Loss
from engine.roster import Roster
from engine.sequence import Sequence
from engine.stats import Stats


def preempt(sequence: Sequence, why: Loss, *, roster: Roster, tables: BlockTables, stats: Stats) -> None:
    """Take a sequence's cache. One that ran waits, and starts again from what is found in the cache then."""
    lost, before = sequence.ledger.computed, tables.pool.num_available
    tables.preempt(sequence)
    if why is Loss.ROOM:
        stats.preemptions += 1
    stats.rollbacks["preempted" if why is Loss.ROOM else why.value] += 1
    roster.preempt(sequence, why, lost=lost, freed=tables.pool.num_available - before)
