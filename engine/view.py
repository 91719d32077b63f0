"""What an onlooker sees: the engine at one moment, and one step from the outside. Reads, never writes."""

from collections.abc import Mapping, Reversible
from dataclasses import dataclass

from engine.cache.tables import BlockTables
from engine.look import Look
from engine.pace import Pace, as_streams
from engine.roster import Roster
from engine.sequence import Sequence
from engine.stats import PaceView, SequenceView, Snapshot, Stats, StepRecord, StepRow, TableView
from engine.step import Advance, Chunk, Plan, num_standing

OwnedBlocks = tuple[TableView, ...]
MAX_RUNNING = 256  # that a look lists; more than anybody reads
MAX_OTHERS = 64  # that it lists of each other state


@dataclass(frozen=True, slots=True)
class Issued:
    """A step between its commit and its publication: when it was over, how long it took, and its block tables.

    There are tables only where somebody wants them.
    """

    plan: Plan
    at: float
    seconds: float
    blocks: Mapping[str, OwnedBlocks]


def snapshot_of(roster: Roster, tables: BlockTables, stats: Stats, pace: Pace, *, now: float) -> Snapshot:
    """Everything that can be seen, at one moment."""
    views = tuple(_sequence_view(sequence, tables.view(sequence), now) for sequence in roster)
    return _snapshot(roster, tables, stats, pace, views)


def look_of(roster: Roster, tables: BlockTables, stats: Stats, pace: Pace, *, now: float) -> Look:
    """The same for who looks again and again: what grows with the cache is copied, and nothing is made of it.

    Of each state it lists the first sequences, in the order in which they go; `snapshot` counts the others.
    """
    listed = [*roster.running[:MAX_RUNNING]]
    for others in (roster.paused, roster.waiting, roster.parked):
        listed += others[:MAX_OTHERS]
    views = tuple(_sequence_view(sequence, (), now) for sequence in listed)
    return Look(
        at=now,
        snapshot=_snapshot(roster, tables, stats, pace, views),
        units=tables.pool.codes(),
        slots=tables.states.pool.codes(),
        tables={sequence.id: tables.units_of(sequence) for sequence in listed},
    )


def _snapshot(
    roster: Roster, tables: BlockTables, stats: Stats, pace: Pace, sequences: tuple[SequenceView, ...]
) -> Snapshot:
    return Snapshot(
        blocks=tables.pool.counts(),
        groups=tables.group_counts(),
        slots=tables.states.counts(),
        tail_positions=sum(_tail(sequence, tables.block_size) for sequence in roster),
        positions=stats.positions.copy(),
        running=len(roster.running),
        waiting=len(roster.waiting),
        paused=len(roster.paused),
        parked=len(roster.parked),
        steps=stats.steps,
        preemptions=stats.preemptions,
        disconnects=stats.disconnects,
        rollbacks=dict(stats.rollbacks),
        refusals=dict(stats.refusals),
        drafts=dict(stats.drafts),
        grammars=dict(stats.grammars),
        grammar_seconds=stats.grammar_seconds.view(),
        prefix_queries=stats.prefix_queries,
        prefix_hits=stats.prefix_hits,
        time_to_first_token=stats.time_to_first_token.view(),
        inter_token_latency=stats.inter_token_latency.view(),
        queue=stats.queue.view(),
        step_positions=stats.step_positions.view(),
        step_seconds={stage: histogram.view() for stage, histogram in stats.step_seconds.items()},
        pace=_pace_view(pace, roster.running),
        sequences=sequences,
    )


def _pace_view(pace: Pace, running: list[Sequence]) -> PaceView:
    """What was learned, and how long the next step may take: as if one prompt had come, where there is none."""
    streams = [sequence for sequence in running if sequence.num_owed == 1]
    return pace.view(max(1, len(running) - len(streams)), as_streams(streams))


def _tail(sequence: Sequence, block_size: int) -> int:
    """Places of the sequence's blocks that hold nothing computed; those are never shared."""
    return max(0, sequence.held.num_blocks * block_size - sequence.ledger.computed)


def _sequence_view(sequence: Sequence, tables: OwnedBlocks, now: float) -> SequenceView:
    return SequenceView(
        id=sequence.id,
        request_id=sequence.request.id,
        choice=sequence.choice,
        state=sequence.state.value,
        marks=sequence.ledger.marks,
        prompt_tokens=sequence.num_prompt,
        output_tokens=sequence.num_outputs,
        cached_tokens=sequence.cached_tokens,
        max_length=sequence.max_length,
        priority=sequence.request.priority,
        age_seconds=now - sequence.arrived_at,
        tables=tables,
        slot=sequence.held.slot,
        drafted=sequence.ledger.drafted,
    )


def issued_blocks(plan: Plan, roster: Roster, tables: BlockTables) -> dict[str, OwnedBlocks]:
    """Each chunk's block tables with the owners they have while the step is in flight."""
    sequences = (roster.get(chunk.ticket.sequence) for chunk in plan.chunks)
    return {sequence.id: tables.view(sequence) for sequence in sequences if sequence is not None}


def step_record(issued: Issued, advances: Reversible[Advance]) -> StepRecord:
    """One step, once its advances are published. A sequence's first advance is the step's own."""
    by_sequence = {advance.sequence: advance for advance in reversed(advances)}
    pairs = ((chunk, by_sequence.get(chunk.ticket.sequence)) for chunk in issued.plan.chunks)
    rows = tuple(
        _row(chunk, advance, issued.blocks.get(advance.sequence, ())) for chunk, advance in pairs if advance is not None
    )
    return StepRecord(issued.plan.number, rows, issued.at, issued.seconds)


def _row(chunk: Chunk, advance: Advance, tables: OwnedBlocks) -> StepRow:
    states, stop = chunk.ticket.states, chunk.stop
    return StepRow(
        sequence=advance.sequence,
        planned=stop,
        computed=advance.marks.computed,
        accepted=advance.marks.accepted,
        published=advance.publish_upto,
        chunk=(chunk.start, stop),
        tokens=advance.tokens,
        tables=tables,
        slot=None if states is None else states.target,
        checkpoints=() if states is None else states.checkpoints,
        drafts=advance.drafts,
        source=chunk.source,
        num_kept=num_standing(advance.drafts, advance.tokens) if advance.drafts else 0,
        fed=None if chunk.feed is None else (chunk.feed.start, chunk.feed.stop),
    )
