"""Timelines, and what one place of the cache holds, as JSON; tokens only where the operator lets them be seen."""

from collections.abc import Callable, Sequence
from typing import Literal

from engine.course import Moment
from engine.look import Hold, UnitView
from server.errors import from_engine
from server.timelines import TimedRow, Timeline
from server.wire.sight import EventBody, SlotBody, StepBody, TimelineBody, TokensBody, UnitBody

TextOf = Callable[[int], str]

_STATES: dict[Hold, Literal["allocated", "shared", "cached"]] = {
    Hold.ALLOCATED: "allocated",
    Hold.SHARED: "shared",
    Hold.CACHED: "cached",
}


def timeline_body(timeline: Timeline, *, after: int, text_of: TextOf | None) -> TimelineBody:
    """What befell a sequence, and its steps above number `after`; with text where there is a `text_of`."""
    first = timeline.rows[0].row if timeline.rows and timeline.complete else None
    return TimelineBody(
        sequence=timeline.sequence,
        complete=timeline.complete,
        ended=None if timeline.end is None else timeline.end.reason,
        prompt_tokens=None if first is None else first.accepted - len(first.tokens),
        cached_tokens=None if first is None else first.chunk[0],
        steps=[_step(each, text_of) for each in timeline.rows if each.step > after],
        events=[
            _event(*each) for each in enumerate(timeline.moments, 1 + timeline.num_moments - len(timeline.moments))
        ],
    )


def _event(number: int, moment: Moment) -> EventBody:
    body = EventBody(
        number=number,
        time=round(moment.at, 6),
        event=moment.event.value,
    )
    if moment.reason is not None:
        body["reason"] = moment.reason
    if moment.error is not None:
        body["error"] = from_engine(moment.error).name
    if moment.cached is not None:
        body["cached_tokens"] = moment.cached
    if moment.lost is not None and moment.freed is not None:
        body["lost"], body["freed"] = moment.lost, moment.freed
    return body


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
