"""The engine's snapshot as JSON."""

from collections.abc import Iterable

from engine.stats import BlockCounts, CacheInfo, ModelInfo, SequenceView, Snapshot
from server.wire.ledger import (
    BlockBody,
    GroupBody,
    LedgerBody,
    MomentFields,
    PoolBody,
    PositionsBody,
    SequenceBody,
    SequenceFields,
    SlotsBody,
    TableBody,
)


def ledger_body(info: ModelInfo, snapshot: Snapshot) -> LedgerBody:
    """The whole engine at one moment."""
    return {
        "model": info.name,
        **moment_fields(info.cache, snapshot),
        "sequences": [sequence_body(info.cache, view) for view in snapshot.sequences],
    }


def moment_fields(cache: CacheInfo, snapshot: Snapshot) -> MomentFields:
    """What all who look are told of the engine."""
    return MomentFields(
        steps=snapshot.steps,
        running=snapshot.running,
        waiting=snapshot.waiting,
        paused=snapshot.paused,
        parked=snapshot.parked,
        pool=_pool(cache, snapshot),
        positions=_positions(snapshot),
    )


def _positions(snapshot: Snapshot) -> PositionsBody:
    """What all ledgers moved."""
    positions = snapshot.positions
    return PositionsBody(
        planned=positions.planned,
        computed=positions.computed,
        accepted=positions.accepted,
        published=positions.published,
        rejected=positions.rejected,
        recomputed=positions.recomputed,
    )


def _pool(cache: CacheInfo, snapshot: Snapshot) -> PoolBody:
    """The pool by state."""
    counts = snapshot.blocks
    body = PoolBody(
        block_size=cache.block_size,
        capacity=cache.num_blocks,
        free=counts.free,
        allocated=counts.allocated,
        shared=counts.shared,
        cached=counts.cached,
        tail_positions=snapshot.tail_positions,
    )
    if cache.by_group:
        body["groups"] = [_group(*group) for group in zip(cache.groups, snapshot.groups, strict=True)]
    if cache.num_slots:
        body["slots"] = _slots(cache, snapshot.slots)
    return body


def _group(layout: str, counts: BlockCounts) -> GroupBody:
    return GroupBody(layout=layout, allocated=counts.allocated, shared=counts.shared, cached=counts.cached)


def _slots(cache: CacheInfo, counts: BlockCounts) -> SlotsBody:
    return SlotsBody(
        capacity=cache.num_slots,
        slot_bytes=cache.slot_bytes,
        free=counts.free,
        allocated=counts.allocated,
        shared=counts.shared,
        cached=counts.cached,
    )


def sequence_body(cache: CacheInfo, view: SequenceView) -> SequenceBody:
    """One sequence at one moment."""
    body: SequenceBody = {
        **sequence_fields(view),  # type: ignore[typeddict-item]  # it has none of the keys that may be missing
        "age_seconds": round(view.age_seconds, 3),
        "blocks": _blocks(view.blocks),
    }
    if cache.by_group:
        body["tables"] = [TableBody(group=t.group, first=t.first, blocks=_blocks(t.blocks)) for t in view.tables]
    if cache.num_slots:
        body["slot"] = view.slot
    return body


def sequence_fields(view: SequenceView) -> SequenceFields:
    """What all who look are told of a sequence."""
    return SequenceFields(
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
    )


def _blocks(blocks: Iterable[tuple[int, int]]) -> list[BlockBody]:
    return [BlockBody(id=block, owners=owners) for block, owners in blocks]
