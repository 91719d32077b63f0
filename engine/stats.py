"""One snapshot of everything that can be seen, and the few observations that marks alone don't hold."""

from bisect import bisect_left
from collections import Counter
from dataclasses import dataclass, field
from typing import NamedTuple

from engine.ledger import Marks, Positions

SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0)
TOKENS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384, 32768, 65536, 131072)


class Histogram:
    """Counts of observations by upper bound, with their sum."""

    __slots__ = ("bounds", "counts", "sum")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)  # the last one is beyond every bound
        self.sum = 0.0

    def observe(self, value: float, times: int = 1) -> None:
        """Count `value`, `times` times."""
        self.counts[bisect_left(self.bounds, value)] += times
        self.sum += value * times

    def view(self) -> "HistogramView":
        """A frozen copy."""
        return HistogramView(self.bounds, tuple(self.counts), self.sum)


@dataclass(frozen=True, slots=True)
class HistogramView:
    """A histogram at one moment; `counts` has one entry a bound and one beyond, not cumulative."""

    bounds: tuple[float, ...]
    counts: tuple[int, ...]
    sum: float


@dataclass(frozen=True, slots=True)
class DraftCounts:
    """What one source drafted, how many tokens that were, and how many of them stood."""

    drafts: int = 0
    tokens: int = 0
    kept: int = 0


@dataclass(slots=True)
class Stats:
    """What the engine observes as it runs, beside the ledgers. Written by the engine's stages only."""

    positions: Positions = field(default_factory=Positions)
    steps: int = 0
    preemptions: int = 0
    disconnects: int = 0
    rollbacks: Counter[str] = field(
        default_factory=Counter
    )  # by reason: preempted, parked, step_failed, stale, rejected
    refusals: Counter[str] = field(default_factory=Counter)  # by class of RequestRefused
    drafts: dict[str, DraftCounts] = field(default_factory=dict)  # by source
    grammars: Counter[str] = field(default_factory=Counter)  # by outcome: compiled, cached, refused
    grammar_seconds: Histogram = field(default_factory=lambda: Histogram(SECONDS))  # of what was not cached
    prefix_queries: int = 0  # tokens looked up
    prefix_hits: int = 0  # tokens found
    time_to_first_token: Histogram = field(default_factory=lambda: Histogram(SECONDS))
    inter_token_latency: Histogram = field(default_factory=lambda: Histogram(SECONDS))
    queue: Histogram = field(default_factory=lambda: Histogram(SECONDS))
    step_positions: Histogram = field(default_factory=lambda: Histogram(TOKENS))
    step_seconds: dict[str, Histogram] = field(default_factory=dict)  # by stage

    def count_drafts(self, source: str, num_drafts: int, num_kept: int) -> None:
        """Count one verified draft of so many tokens."""
        before = self.drafts.get(source, DraftCounts())
        self.drafts[source] = DraftCounts(before.drafts + 1, before.tokens + num_drafts, before.kept + num_kept)

    def count_grammar(self, outcome: str, seconds: float) -> None:
        """Count one grammar that was asked for, and the time that it took unless there was nothing to do."""
        self.grammars[outcome] += 1
        if outcome != "cached":
            self.grammar_seconds.observe(seconds)

    def observe_stage(self, stage: str, seconds: float) -> None:
        """Count the time that one stage of a step took."""
        if stage not in self.step_seconds:
            self.step_seconds[stage] = Histogram(SECONDS)
        self.step_seconds[stage].observe(seconds)


@dataclass(frozen=True, slots=True)
class CacheInfo:
    """The cache as it was laid out at load; fixed for the life of the engine.

    A block here is what the pool hands out; a model of several cache groups takes `blocks_a_step` of them for
    each `block_size` positions, as long as all groups keep them.
    """

    block_size: int  # positions
    num_blocks: int
    block_bytes: int
    dtype: str
    layout: str  # one line for people, such as "full attention, 30 layers, 3 kv heads x 64"
    groups: tuple[str, ...] = ()  # of rows, each in a few words
    forgets: bool = False  # whether some group gives back what no query sees any more
    blocks_a_step: int = 1
    waste: float = 0.0  # the share of bytes that no row ever takes
    num_slots: int = 0  # of recurrent states
    slot_bytes: int = 0
    widths: tuple[int, ...] = (1,)  # units of the pool that a block of each group takes

    @property
    def num_positions(self) -> int:
        """Positions that all blocks hold together, where no group forgets any."""
        return self.block_size * self.num_blocks // (self.blocks_a_step or 1)

    @property
    def by_group(self) -> bool:
        """Whether there is more to tell of blocks than one list: several groups, or one that forgets."""
        return len(self.groups) > 1 or self.forgets

    @property
    def num_bytes(self) -> int:
        """What blocks and slots take."""
        return self.num_blocks * self.block_bytes + self.num_slots * self.slot_bytes


@dataclass(frozen=True, slots=True)
class DraftModelInfo:
    """What guesses for the model that is served."""

    name: str
    context_length: int  # positions; a longer sequence goes on without it


@dataclass(frozen=True, slots=True)
class ModelInfo:
    """What is served."""

    name: str
    context_length: int  # positions: the smaller of the model's and the cache's
    model_context_length: int  # positions that the model itself allows
    vocabulary_size: int
    architecture: str
    dtype: str  # the bits that matrices are kept in
    runs_on: str  # the path of the model step and what computes it
    cache: CacheInfo
    embedding_size: int  # values of an embedding
    draft_model: DraftModelInfo | None = None
    row_tile: int | None = None  # rows that the model step computes together, where the first of them costs most


@dataclass(frozen=True, slots=True)
class BlockCounts:
    """A partition of the pool: no content; one owner; several owners; no owner but reusable."""

    free: int
    allocated: int
    shared: int
    cached: int


@dataclass(frozen=True, slots=True)
class PaceView:
    """How long the next step may take, and what the parts of a step cost, as learned so far; seconds."""

    goal: float = 0.0  # what the planner aims for while there are prompts
    step: float = 0.0  # what any step takes
    stream: float = 0.0
    position_alone: float = 0.0  # of a prompt, in a step without streams
    position_beside: float = 0.0  # in one with streams
    draft: float = 0.0  # a drafted position and its row of logits
    draft_tile: float = 0.0  # a tile of rows that drafts open, beside its rows
    round: float = 0.0  # of the draft model, whoever takes part
    guess: float = 0.0  # a position that the draft model computes
    score: float = 0.0  # a row of logits beyond the streams' own


@dataclass(frozen=True, slots=True)
class TableView:
    """What a sequence holds of one cache group: (block id, number of owners), from block number `first` on."""

    group: int
    first: int
    blocks: tuple[tuple[int, int], ...]


class SequenceView(NamedTuple):  # cheaper to make than a dataclass, and a watcher has all of them made at every look
    """One sequence at one moment. `slot` has its recurrent state; `drafted` is the draft model's own `computed`."""

    id: str
    request_id: str
    choice: int
    state: str
    marks: Marks
    prompt_tokens: int
    output_tokens: int
    cached_tokens: int | None
    max_length: int
    priority: int
    age_seconds: float
    tables: tuple[TableView, ...]
    slot: int | None = None
    drafted: int = 0

    @property
    def blocks(self) -> tuple[tuple[int, int], ...]:
        """What it holds of all groups."""
        return tuple(block for table in self.tables for block in table.blocks)


class StepRow(NamedTuple):  # as above: while somebody watches, each step makes one for every sequence
    """What one step did to one sequence.

    `planned` is the mark as the step was issued, the others as they stand once it is committed and
    published. `tables` are as they were when the step was issued; `slot` had
    the recurrent state, and `checkpoints` are the (position, slot) that the step wrote besides.
    The last tokens of the chunk were `drafts` by `source`, and the first `num_kept` of them stood. Of accepted tokens
    the draft model computed the positions `fed`, beside them those of all its guesses but the last.
    """

    sequence: str
    planned: int
    computed: int
    accepted: int
    published: int
    chunk: tuple[int, int]
    tokens: tuple[int, ...]
    tables: tuple[TableView, ...]
    slot: int | None = None
    checkpoints: tuple[tuple[int, int], ...] = ()
    drafts: tuple[int, ...] = ()
    source: str = ""
    num_kept: int = 0
    fed: tuple[int, int] | None = None

    @property
    def blocks(self) -> tuple[tuple[int, int], ...]:
        """The blocks of all groups."""
        return tuple(block for table in self.tables for block in table.blocks)


@dataclass(frozen=True, slots=True)
class StepRecord:
    """One step as an observer sees it. It was over `at` a moment of the engine's clock, and took `seconds`."""

    step: int
    rows: tuple[StepRow, ...]
    at: float = 0.0
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The engine at one moment, between two moves; taking it waits for nothing."""

    blocks: BlockCounts
    groups: tuple[BlockCounts, ...]  # by cache group; what is free is free for all of them
    slots: BlockCounts  # of recurrent states; cached ones are checkpoints
    tail_positions: int  # places of referenced blocks that hold no computed position
    positions: Positions
    running: int
    waiting: int
    paused: int
    parked: int
    steps: int
    preemptions: int
    disconnects: int
    rollbacks: dict[str, int]
    refusals: dict[str, int]
    drafts: dict[str, DraftCounts]  # by source
    grammars: dict[str, int]
    grammar_seconds: HistogramView
    prefix_queries: int
    prefix_hits: int
    time_to_first_token: HistogramView
    inter_token_latency: HistogramView
    queue: HistogramView
    step_positions: HistogramView
    step_seconds: dict[str, HistogramView]
    pace: PaceView
    sequences: tuple[SequenceView, ...]
