"""What watchers are sent: snapshots, of which most tell only what has changed, and what one place holds."""

from typing import Literal, NotRequired

from typing_extensions import TypedDict

from server.wire.ledger import MomentFields, SequenceFields


class CacheGroupBody(TypedDict):
    """One cache group, and how many units of the pool a block of it takes."""

    layout: str
    width: int


class EngineBody(TypedDict):
    """What does not change while the engine lives. Units are what the pool hands out; `groups` are in order."""

    model: str
    architecture: str
    dtype: str
    context_length: int
    layout: str
    block_size: int
    num_units: int
    unit_bytes: int
    groups: list[CacheGroupBody]
    num_slots: int
    slot_bytes: int
    draft_model: str | None
    max_sequences: int
    max_waiting: int
    show_text: bool


class DraftsBody(TypedDict):
    """Drafts by one source: how many, their tokens, and how many of these were kept."""

    drafts: int
    tokens: int
    kept: int


class PrefixBody(TypedDict):
    """Tokens of prompts that were looked up in the cache, and those that were found."""

    queries: int
    hits: int


class SumBody(TypedDict):
    """How often something was measured, and the sum of what was."""

    count: int
    sum: float


class WholeCodes(TypedDict):
    """One character for each place. Its code less 48 is 0 where the place is free.

    Else it is one more than three times the group, and 0 for one owner, 1 for several, 2 for none.
    """

    states: str


class ChangedCodes(TypedDict):
    """Runs of places that have changed: the first one, and the characters from there on."""

    changed: list[list[int | str]]  # a pair each: tuples are described by words that tools of OpenAPI stumble over


Codes = WholeCodes | ChangedCodes


class UnitTableBody(TypedDict):
    """The units that a sequence holds of one cache group, from its block number `first` on.

    Those of block numbers below `kept` are as they were in the snapshot before; `units` follow.
    """

    first: int
    kept: int
    units: list[int]


class WatchedSequence(SequenceFields):
    """One sequence, as the ledger has it; `arrived` is on the clock of `time`."""

    arrived: float
    tables: list[UnitTableBody]
    slot: NotRequired[int | None]
    drafted: NotRequired[int]


class RejectionBody(TypedDict):
    """A draft that fell at `position`; the tokens before it were kept. Numbered from 1 as long as somebody watches."""

    number: int
    sequence: str
    step: int
    position: int
    drafted: int
    kept: int
    source: str


class EndedBody(TypedDict):
    """A sequence that ended, why, and with which error. Numbered from 1 as long as somebody watches."""

    number: int
    sequence: str
    time: float
    reason: str
    error: NotRequired[str]


class UnlistedBody(TypedDict):
    """How many sequences of each state are not among those that are listed."""

    running: int
    waiting: int
    paused: int
    parked: int


class SightBody(MomentFields):
    """The engine at one moment. In a `whole` one nothing refers to what was sent before."""

    whole: bool
    time: float
    uptime_seconds: float
    server: str
    info: NotRequired[EngineBody]
    unlisted: UnlistedBody
    preemptions: int
    disconnects: int
    refusals: dict[str, int]
    rollbacks: dict[str, int]
    drafts: dict[str, DraftsBody]
    prefix: PrefixBody
    seconds: dict[str, SumBody]
    step_positions: SumBody
    time_to_first_token: SumBody
    inter_token_latency: SumBody
    queue: SumBody
    units: Codes
    slots: NotRequired[Codes]
    sequences: list[WatchedSequence]
    rejections: list[RejectionBody]
    ended: list[EndedBody]


class SightEnd(TypedDict):
    """Why there are no more."""

    reason: Literal["draining", "engine_stopped", "count"]


class UnitBody(TypedDict):
    """What one unit of the pool holds: the block that it is part of, the block's positions and owners."""

    unit: int
    block: int | None
    units: list[int]
    state: Literal["free", "allocated", "shared", "cached"]
    group: int | None
    positions: list[int] | None
    owners: list[str]
    tokens: NotRequired[list[int]]
    text: NotRequired[str]


class SlotBody(TypedDict):
    """What one slot holds: the recurrent state behind so many positions."""

    slot: int
    state: Literal["free", "allocated", "shared", "cached"]
    position: int | None
    owners: list[str]


class TokensBody(TypedDict):
    """Tokens, and their text."""

    tokens: list[int]
    text: str


class StepBody(TypedDict):
    """What one step did to a sequence: its chunk, the marks behind it, and how many of `tokens` had been drafted."""

    step: int
    time: float
    seconds: float
    chunk: list[int]
    planned: int
    computed: int
    accepted: int
    published: int
    tokens: int
    drafted: int
    kept: int
    source: str
    chosen: NotRequired[TokensBody]
    drafts: NotRequired[TokensBody]


class EventBody(TypedDict):
    """What befell a sequence beside its steps, on their clock. Numbered from 1 for each sequence.

    `cached_tokens` were found in the cache as it came to run. As it was preempted, it had computed `lost` positions,
    and `freed` units were nobody else's. `reason` says why it was preempted or ended, and `error` with which code.
    """

    number: int
    time: float
    event: Literal["queued", "admitted", "preempted", "paused", "unpaused", "parked", "unparked", "resumed", "ended"]
    reason: NotRequired[str]
    error: NotRequired[str]
    cached_tokens: NotRequired[int]
    lost: NotRequired[int]
    freed: NotRequired[int]


class TimelineBody(TypedDict):
    """The steps of one sequence; `complete` if its first ones are among those that were seen. `events` are its last."""

    sequence: str
    complete: bool
    ended: str | None
    prompt_tokens: int | None
    cached_tokens: int | None
    steps: list[StepBody]
    events: list[EventBody]


class RequestTimeline(TypedDict):
    """The timelines of a request's sequences."""

    id: str
    sequences: list[TimelineBody]
