"""What passes between the stages of a step: frozen values that can be pickled."""

from collections.abc import Awaitable, Callable, Sequence as Run
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import NamedTuple, Protocol

from engine.ledger import Marks
from engine.request import Delta, Sampling, TokenLogprob

GUESSING = "guess"  # the stage of a step in which the draft model runs


@dataclass(frozen=True, slots=True)
class Table:
    """A block table as a step reads it: units of the pool, from block number `first` of the sequence on.

    What lies before is behind every window that the step sees through.
    """

    units: tuple[int, ...]
    first: int = 0


@dataclass(frozen=True, slots=True)
class StateUse:
    """Which slots a chunk's recurrent state comes from and goes to.

    `source` None is the state before any token. The state before each position of `checkpoints` is also
    written to the slot beside it; these positions lie behind the chunk's first and not behind its end.
    """

    source: int | None
    target: int
    checkpoints: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True, slots=True)
class Ticket:
    """What a chunk was built on; a result whose ticket no longer fits is dropped whole.

    `base` is the `computed` mark that the chunk continues, `tables` the block tables it reads and writes
    through, as many as the layout has, and `states` its slots where the model is recurrent.
    """

    sequence: str
    epoch: int
    incarnation: int
    base: int
    tables: tuple[Table, ...]
    states: StateUse | None = None


@dataclass(frozen=True, slots=True)
class Choose:
    """How the token after a chunk's last owed position is chosen.

    `choice` is the sequence's number within its request and `output_index` the new token's index
    among the outputs: with the seed they are all the randomness there is. `prompt` and `outputs`
    are empty unless `sampling` penalizes. `banned` ids can't be chosen before output `min_outputs`. `top_logprobs` as
    in Request.
    """

    sampling: Sampling
    choice: int
    output_index: int
    prompt: tuple[int, ...] = ()
    outputs: tuple[int, ...] = ()
    banned: tuple[int, ...] = ()
    min_outputs: int = 0
    top_logprobs: int | None = None

    def after(self, drafts: tuple[int, ...]) -> "Choose":
        """How the next token is chosen where these drafts stand."""
        index = self.output_index + len(drafts)
        outputs = (*self.outputs, *drafts) if self.sampling.penalizes else ()
        banned = self.banned if index < self.min_outputs else ()
        return replace(self, output_index=index, outputs=outputs, banned=banned)


@dataclass(frozen=True, slots=True)
class Score:
    """Which of a chunk's positions report the log-probability of the token that follows them.

    The positions are `first`, `first + 1`, … one for each of `targets`, the known next tokens.
    """

    first: int
    targets: tuple[int, ...]
    top_logprobs: int


@dataclass(frozen=True, slots=True)
class Pool:
    """Whose hidden states are added up: those of a chunk's positions from `first` on.

    `sum` is that of the positions before: float64 values in the machine's order, none where nothing was added yet.
    """

    first: int
    sum: bytes = b""


@dataclass(frozen=True, slots=True)
class Feed:
    """What the draft model computes of a sequence's accepted tokens: `tokens` at position `start` and on."""

    start: int
    tokens: tuple[int, ...]

    @property
    def stop(self) -> int:
        """One past the last position."""
        return self.start + len(self.tokens)


@dataclass(frozen=True, slots=True)
class Chunk:
    """One sequence's positions in a step: `tokens` at `ticket.base` and on.

    The last `num_drafts` positions are drafts by `source`. A chunk that has drafts chooses, and does so behind
    each of them as well. `num_guesses` of them have no token yet: the draft model guesses these in the same step, one
    after the other, once it has computed the `feed`.
    """

    ticket: Ticket
    tokens: tuple[int, ...]
    choose: Choose | None = None
    score: Score | None = None
    num_drafts: int = 0
    source: str = ""
    pool: Pool | None = None
    feed: Feed | None = None
    num_guesses: int = 0

    @property
    def start(self) -> int:
        """The first position."""
        return self.ticket.base

    @property
    def stop(self) -> int:
        """One past the last position."""
        return self.ticket.base + len(self.tokens) + self.num_guesses

    @property
    def owed_stop(self) -> int:
        """One past the last position whose token is accepted."""
        return self.stop - self.num_drafts

    @property
    def drafts(self) -> tuple[int, ...]:
        """The drafted tokens, as far as they are known."""
        return self.tokens[self.owed_stop - self.start :]

    def with_guesses(self, guesses: tuple[int, ...]) -> "Chunk":
        """The same chunk once the draft model has guessed."""
        assert len(guesses) == self.num_guesses, "as many guesses as there are places for"
        return replace(self, tokens=(*self.tokens, *guesses), num_guesses=0) if guesses else self

    @property
    def num_chosen(self) -> int:
        """Rows of this chunk that a token is chosen from: the last ones."""
        return 0 if self.choose is None else self.num_drafts + 1

    @property
    def num_logit_rows(self) -> int:
        """Rows of this chunk that need logits."""
        return self.num_chosen + (len(self.score.targets) if self.score else 0)

    @property
    def num_pooled(self) -> int:
        """Rows of this chunk whose hidden states are added up: the last ones."""
        return 0 if self.pool is None else self.stop - self.pool.first


@dataclass(frozen=True, slots=True)
class Plan:
    """What one step computes. Steps are numbered from 1."""

    number: int
    chunks: tuple[Chunk, ...]

    @property
    def num_positions(self) -> int:
        """Positions that the step computes."""
        return sum(chunk.stop - chunk.start for chunk in self.chunks)

    @property
    def is_fed(self) -> bool:
        """Whether the draft model has to do something for it."""
        return any(chunk.feed is not None for chunk in self.chunks)

    @property
    def pooled_rows(self) -> tuple[int, ...]:
        """Whose hidden states are added up, counted over all chunks, one behind the other."""
        ends = accumulate(len(chunk.tokens) for chunk in self.chunks)
        pairs = zip(self.chunks, ends, strict=True)
        return tuple(row for chunk, end in pairs for row in range(end - chunk.num_pooled, end))


@dataclass(frozen=True, slots=True)
class Masks:
    """Which tokens the grammars of a step allow: by chunk, for each row that a token is chosen from, or for none.

    Bit `id % 8` of byte `id // 8` is a token's. A mask has whole words of 32 bits, and bits of the model's
    vocabulary alone. What is banned is not in it, unless there was nothing else.
    """

    by_chunk: tuple[tuple[bytes, ...], ...]


MaskSource = Callable[[], Masks]  # waits until they are made; blocking


class Chosen(NamedTuple):
    """A token that the device chose, and its log-probability where that was asked for."""

    token: int
    logprob: TokenLogprob | None = None


def num_standing(drafts: Run[int], chosen: Run[int | None]) -> int:
    """How many of the leading drafts equal the token that was chosen in their place; None stands for no token."""
    pairs = zip(drafts, chosen, strict=False)
    return next((index for index, (draft, token) in enumerate(pairs) if draft != token), min(len(drafts), len(chosen)))


@dataclass(frozen=True, slots=True)
class ChunkResult:
    """What the device made of one chunk: the tokens chosen behind its drafts, as far as these stand, and the scores.

    `chosen` is empty where none was asked for; else it has one token for each draft that stands, and one more.
    `pooled` is the sum that the chunk's `pool` asked for, with what was added.
    `guesses` are the drafted tokens that the chunk had places for.
    """

    ticket: Ticket
    chosen: tuple[Chosen, ...] = ()
    scores: tuple[TokenLogprob, ...] = ()
    pooled: bytes = b""
    guesses: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class StepResult:
    """One result a chunk, in the plan's order, and where the time went, by stage name."""

    number: int
    chunks: tuple[ChunkResult, ...]
    seconds: tuple[tuple[str, float], ...] = ()

    @property
    def guessing_seconds(self) -> float:
        """How long the draft model took."""
        return dict(self.seconds).get(GUESSING, 0.0)


@dataclass(frozen=True, slots=True)
class Advance:
    """What a commit did to one sequence: its marks (published not yet raised), and what may be published.

    `publish_upto` is the `published` mark once `delta` is in the stream. `delta` is None when
    everything new is held back. `drafts` were verified.
    """

    sequence: str
    marks: Marks
    publish_upto: int
    delta: Delta | None
    tokens: tuple[int, ...] = ()
    drafts: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a commit did, for `publish` and the trace."""

    number: int
    advances: tuple[Advance, ...]


class Runner(Protocol):
    """Executes one plan at a time. Raises whatever the model step raises.

    `incarnation` names the worker's life: a result of an earlier one is not committed.
    """

    @property
    def incarnation(self) -> int:
        """Which life of the worker answers now."""
        ...

    def execute(self, plan: Plan, masks: MaskSource | None = None) -> Awaitable[StepResult]:
        """Compute the plan's positions, write their cache state, choose and score tokens.

        Starts at once, so that the caller can do other work before it awaits the result. `masks` are not needed
        before tokens are chosen, and are waited for then.
        """
        ...
