"""Timelines, and what one place of the cache holds, as JSON; tokens only where the operator lets them be seen."""

from collections.abc import Callable, Sequence
from typing import Literal

from engine.stats import Hold, UnitView
from server.timelines import TimedRow, Timeline
from server.wire.sight import SlotBody, StepBody, TimelineBody, TokensBody, UnitBody

TextOf = Callable[[int], str]

_STATES: dict[Hold, Literal["allocated", "shared", "cached"]] = {
    Hold.ALLOCATED: "allocated",
    Hold.SHARED: "shared",
    Hold.CACHED: "cached",
}


def timeline_body(timeline: Timeline, *, after: int, text_of: TextOf | None) -> TimelineBody:
    """The steps of a sequence above number `after`; with text where there is a `text_of`."""
    first, last = timeline.rows[0], timeline.rows[-1]
    prompt_tokens = first.row.accepted - len(first.row.tokens)
    return TimelineBody(
        sequence=timeline.sequence,
        complete=timeline.complete,
        ended=last.row.end,
        prompt_tokens=prompt_tokens if timeline.complete else None,
        cached_tokens=first.row.chunk[0] if timeline.complete else None,
        steps=[_step(each, text_of) for each in timeline.rows if each.step > after],
    )


def _step(timed: TimedRow, text_of: TextOf | None) -> StepBody:
    row = timed.row
    body = StepBody(
        step=timed.step,
        time=round(timed.at, 6),
        seconds=round(timed.seconds, 6),
        chunk=list(row.chunk),
        planned=row.planned,
        computed=row.computed,
        accepted=row.accepted,
        published=row.published,
        tokens=len(row.tokens),
        drafted=len(row.drafts),
        kept=row.num_kept,
        source=row.source,
    )
    if text_of is not None:
        body["chosen"] = _tokens(row.tokens, text_of)
        body["drafts"] = _tokens(row.drafts, text_of)
    return body


def _tokens(tokens: Sequence[int], text_of: TextOf) -> TokensBody:
    return TokensBody(tokens=list(tokens), text="".join(map(text_of, tokens)))


def unit_body(unit: int, view: UnitView | None, *, text_of: TextOf | None) -> UnitBody:
    """One unit of the pool."""
    if view is None:
        return UnitBody(unit=unit, block=None, units=[unit], state="free", group=None, positions=None, owners=[])
    body = UnitBody(
        unit=unit,
        block=view.block,
        units=list(view.units),
        state=_STATES[view.hold],
        group=view.group,
        positions=None if view.positions is None else list(view.positions),
        owners=list(view.owners),
    )
    if text_of is not None:
        body["tokens"], body["text"] = list(view.tokens), "".join(map(text_of, view.tokens))
    return body


def slot_body(slot: int, view: UnitView | None) -> SlotBody:
    """One slot of recurrent states."""
    if view is None:
        return SlotBody(slot=slot, state="free", position=None, owners=[])
    position = None if view.positions is None else view.positions[1]
    return SlotBody(slot=slot, state=_STATES[view.hold], position=position, owners=list(view.owners))
