"""The engine's snapshot as JSON."""

from engine.stats import ModelInfo, SequenceView, Snapshot
from server.wire.ledger import BlockBody, LedgerBody, PoolBody, PositionsBody, SequenceBody


def ledger_body(info: ModelInfo, snapshot: Snapshot) -> LedgerBody:
    """The whole engine at one moment."""
    positions = snapshot.positions
    return LedgerBody(
        model=info.name,
        steps=snapshot.steps,
        running=snapshot.running,
        waiting=snapshot.waiting,
        paused=snapshot.paused,
        pool=_pool(info, snapshot),
        positions=PositionsBody(
            planned=positions.planned,
            computed=positions.computed,
            accepted=positions.accepted,
            published=positions.published,
            rejected=positions.rejected,
            recomputed=positions.recomputed,
        ),
        sequences=[sequence_body(view) for view in snapshot.sequences],
    )


def _pool(info: ModelInfo, snapshot: Snapshot) -> PoolBody:
    counts = snapshot.blocks
    return PoolBody(
        block_size=info.cache.block_size,
        capacity=info.cache.num_blocks,
        free=counts.free,
        allocated=counts.allocated,
        shared=counts.shared,
        cached=counts.cached,
        tail_positions=snapshot.tail_positions,
    )


def sequence_body(view: SequenceView) -> SequenceBody:
    """One sequence at one moment."""
    return SequenceBody(
        id=view.id,
        request_id=view.request_id,
        choice=view.choice,
        state=view.state,
        planned=view.marks.planned,
        computed=view.marks.computed,
        accepted=view.marks.accepted,
        published=view.marks.published,
        prompt_tokens=view.prompt_tokens,
        output_tokens=view.output_tokens,
        cached_tokens=view.cached_tokens,
        max_length=view.max_length,
        priority=view.priority,
        age_seconds=round(view.age_seconds, 3),
        blocks=[BlockBody(id=block, owners=owners) for block, owners in view.blocks],
    )
