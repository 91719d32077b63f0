"""The ledger: the four marks of every sequence, and the blocks that hold them."""

from typing_extensions import TypedDict


class BlockBody(TypedDict):
    """A block of a sequence's table, and how many sequences own it."""

    id: int
    owners: int


class SequenceBody(TypedDict):
    """One sequence at one moment. Marks are exclusive upper bounds on positions, counted from 0."""

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
    age_seconds: float
    blocks: list[BlockBody]


class RequestLedger(TypedDict):
    """The sequences of one request."""

    id: str
    sequences: list[SequenceBody]


class PoolBody(TypedDict):
    """The blocks by state, a partition: no content; one owner; several owners; no owner but reusable."""

    block_size: int
    capacity: int
    free: int
    allocated: int
    shared: int
    cached: int
    tail_positions: int


class PositionsBody(TypedDict):
    """How many positions all ledgers together moved since the start, by event."""

    planned: int
    computed: int
    accepted: int
    published: int
    rejected: int
    recomputed: int


class LedgerBody(TypedDict):
    """The engine at one moment."""

    model: str
    steps: int
    running: int
    waiting: int
    paused: int
    pool: PoolBody
    positions: PositionsBody
    sequences: list[SequenceBody]
