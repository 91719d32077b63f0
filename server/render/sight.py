"""Looks at the engine as JSON: whole, or as what has changed since an earlier one."""

from collections import Counter
from collections.abc import Iterator

from config.settings import Settings
from engine.look import Look, UnitTable
from engine.stats import CacheInfo, HistogramView, ModelInfo, SequenceView, Snapshot
from server.errors import from_engine
from server.render.ledger import moment_fields, sequence_fields
from server.timelines import Ended, Fallen
from server.wire.sight import (
    CacheGroupBody,
    ChangedCodes,
    Codes,
    DraftsBody,
    EndedBody,
    EngineBody,
    PrefixBody,
    RejectionBody,
    SumBody,
    UnitTableBody,
    UnlistedBody,
    WatchedSequence,
    WholeCodes,
)

SPAN = 256  # units that are compared at once
RUN_BYTES = 10  # of JSON around the characters of a run
_CHARACTERS = bytes((48 + code) % 256 for code in range(256))  # from "0" on, which all can read


def engine_body(info: ModelInfo, settings: Settings) -> EngineBody:
    """What does not change."""
    cache = info.cache
    return EngineBody(
        model=info.name,
        architecture=info.architecture,
        dtype=info.dtype,
        context_length=info.context_length,
        layout=cache.layout,
        block_size=cache.block_size,
        num_units=cache.num_blocks,
        unit_bytes=cache.block_bytes,
        groups=[
            CacheGroupBody(layout=each, width=width) for each, width in zip(cache.groups, cache.widths, strict=False)
        ],
        num_slots=cache.num_slots,
        slot_bytes=cache.slot_bytes,
        draft_model=None if info.draft_model is None else info.draft_model.name,
        max_sequences=settings.engine.max_sequences,
        max_waiting=settings.engine.max_waiting,
        show_text=settings.server.show_text,
    )


def counts_body(cache: CacheInfo, snapshot: Snapshot) -> dict[str, object]:
    """All that a snapshot counts. Equal for two snapshots between which nothing was done."""
    return {
        **moment_fields(cache, snapshot),
        "unlisted": _unlisted(snapshot),
        "preemptions": snapshot.preemptions,
        "disconnects": snapshot.disconnects,
        "refusals": snapshot.refusals,
        "rollbacks": snapshot.rollbacks,
        "drafts": {
            source: DraftsBody(drafts=each.drafts, tokens=each.tokens, kept=each.kept)
            for source, each in snapshot.drafts.items()
        },
        "prefix": PrefixBody(queries=snapshot.prefix_queries, hits=snapshot.prefix_hits),
        "seconds": {stage: _sum(view) for stage, view in snapshot.step_seconds.items()},
        "step_positions": _sum(snapshot.step_positions),
        "time_to_first_token": _sum(snapshot.time_to_first_token),
        "inter_token_latency": _sum(snapshot.inter_token_latency),
        "queue": _sum(snapshot.queue),
    }


def _unlisted(snapshot: Snapshot) -> UnlistedBody:
    listed = Counter(view.state for view in snapshot.sequences)
    return UnlistedBody(
        running=snapshot.running - listed["running"],
        waiting=snapshot.waiting - listed["waiting"],
        paused=snapshot.paused - listed["paused"],
        parked=snapshot.parked - listed["parked"],
    )


def _sum(view: HistogramView) -> SumBody:
    return SumBody(count=sum(view.counts), sum=round(view.sum, 6))


def codes_body(codes: bytes, before: bytes | None) -> Codes:
    """All codes, or the runs of those that have changed, where these are less."""
    runs = None if before is None else list(_changes(before, codes))
    if runs is None or sum(RUN_BYTES + stop - start for start, stop in runs) > len(codes) + SPAN:
        return WholeCodes(states=_text(codes))
    return ChangedCodes(changed=[[start, _text(codes[start:stop])] for start, stop in runs])


def _text(codes: bytes) -> str:
    return codes.translate(_CHARACTERS).decode("latin-1")


def _changes(before: bytes, after: bytes) -> Iterator[tuple[int, int]]:
    """Runs of places that differ; long equal spans cost next to nothing."""
    start: int | None = None
    for span in range(0, len(after), SPAN):
        stop = min(span + SPAN, len(after))
        if start is None and before[span:stop] == after[span:stop]:
            continue
        for place in range(span, stop):
            if before[place] == after[place]:
                if start is not None:
                    yield start, place
                start = None
            elif start is None:
                start = place
    if start is not None:
        yield start, len(after)


def watched_sequences(info: ModelInfo, look: Look, before: Look | None) -> list[WatchedSequence]:
    """Every sequence that is listed; of tables what has changed."""
    return [_sequence(info, view, look, before) for view in look.snapshot.sequences]


def _sequence(info: ModelInfo, view: SequenceView, look: Look, before: Look | None) -> WatchedSequence:
    known = () if before is None else before.tables.get(view.id, ())
    body: WatchedSequence = {
        **sequence_fields(view),  # type: ignore[typeddict-item]  # it has none of the keys that may be missing
        "arrived": round(look.at - view.age_seconds, 3),
        "tables": [
            _table(table, known[group] if known else None, info.cache.widths[group])
            for group, table in enumerate(look.tables[view.id])
        ],
    }
    if info.cache.num_slots:
        body["slot"] = view.slot
    if info.draft_model is not None:
        body["drafted"] = view.drafted
    return body


def _table(table: UnitTable, before: UnitTable | None, width: int) -> UnitTableBody:
    """The units from the first block on that is not as it was before."""
    num_kept = 0 if before is None else _num_equal(table, before, width)
    return UnitTableBody(first=table.first, kept=table.first + num_kept, units=list(table.units[num_kept * width :]))


def _num_equal(table: UnitTable, before: UnitTable, width: int) -> int:
    """How many leading blocks of a table are as they were."""
    gone = table.first - before.first
    if gone < 0:
        return 0
    old = before.units[gone * width :]
    if table.units[: len(old)] == old:
        return len(old) // width
    pairs = zip(table.units, old, strict=False)
    num_units = next(
        (index for index, (new, known) in enumerate(pairs) if new != known), min(len(old), len(table.units))
    )
    return num_units // width


def rejection_body(fallen: Fallen) -> RejectionBody:
    """One draft that fell."""
    row = fallen.row
    return RejectionBody(
        number=fallen.number,
        sequence=row.sequence,
        step=fallen.step,
        position=row.planned - len(row.drafts) + row.num_kept,
        drafted=len(row.drafts),
        kept=row.num_kept,
        source=row.source,
    )


def ended_body(ended: Ended) -> EndedBody:
    """One sequence that ended."""
    moment = ended.moment
    body = EndedBody(number=ended.number, sequence=ended.sequence, time=round(moment.at, 6), reason=moment.reason or "")
    if moment.error is not None:
        body["error"] = from_engine(moment.error).name
    return body
