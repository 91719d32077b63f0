"""The ledger: the four marks of every sequence, and the blocks that hold them."""

from typing import NotRequired

from typing_extensions import TypedDict


class BlockBody(TypedDict):
    """A block of a sequence's table, and how many sequences own it."""

    id: int
    owners: int


class TableBody(TypedDict):
    """A sequence's blocks of one cache group, from its block number `first` on; those before were given back."""

    group: int
    first: int
    blocks: list[BlockBody]


class SequenceFields(TypedDict):
    """What all who look are told of a sequence. Marks are exclusive upper bounds on positions, counted from 0."""

    id: str
    request_id: str
    choice: int
    state: str
    planned: int
    computed: int
    accepted: int
    published: int
    prompt_tokens: int
    output_tokens: int
    cached_tokens: int | None
    max_length: int
    priority: int


class SequenceBody(SequenceFields):
    """One sequence at one moment.

    `blocks` are those of all cache groups; `tables` has them by group where there are several, or one that gives
    blocks back behind its window. `slot`, where the model is recurrent, has the sequence's state.
    """

    age_seconds: float
    blocks: list[BlockBody]
    tables: NotRequired[list[TableBody]]
    slot: NotRequired[int | None]


class RequestLedger(TypedDict):
    """The sequences of one request."""

    id: str
    sequences: list[SequenceBody]


class GroupBody(TypedDict):
    """The blocks that one cache group's layers use, by state; what is free is free for all groups."""

    layout: str
    allocated: int
    shared: int
    cached: int


class SlotsBody(TypedDict):
    """The places of recurrent states by state, a partition as that of blocks; those cached are checkpoints."""

    capacity: int
    slot_bytes: int
    free: int
    allocated: int
    shared: int
    cached: int


class PoolBody(TypedDict):
    """The blocks by state, a partition: no content; one owner; several owners; no owner but reusable.

    `groups` is there where a sequence has `tables`, and `slots` where it has one.
    """

    block_size: int
    capacity: int
    free: int
    allocated: int
    shared: int
    cached: int
    tail_positions: int
    groups: NotRequired[list[GroupBody]]
    slots: NotRequired[SlotsBody]


class PositionsBody(TypedDict):
    """How many positions all ledgers together moved since the start, by event."""

    planned: int
    computed: int
    accepted: int
    published: int
    rejected: int
    recomputed: int


class MomentFields(TypedDict):
    """What all who look are told of the engine at one moment."""

    steps: int
    running: int
    waiting: int
    paused: int
    parked: int
    pool: PoolBody
    positions: PositionsBody


class LedgerBody(MomentFields):
    """The engine at one moment."""

    model: str
    sequences: list[SequenceBody]
