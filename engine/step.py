"""What passes between the stages of a step: frozen values that can be pickled."""

from collections.abc import Awaitable
from dataclasses import dataclass
from typing import Protocol

from engine.ledger import Marks
from engine.request import Delta, Sampling, TokenLogprob


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
    """How the token after a chunk's last position is chosen.

    `choice` is the sequence's number within its request and `output_index` the new token's index
    among the outputs: with the seed they are all the randomness there is. `prompt` and `outputs`
    are empty unless `sampling` penalizes. `banned` ids can't be chosen. `top_logprobs` as in Request.
    """

    sampling: Sampling
    choice: int
    output_index: int
    prompt: tuple[int, ...] = ()
    outputs: tuple[int, ...] = ()
    banned: tuple[int, ...] = ()
    top_logprobs: int | None = None


@dataclass(frozen=True, slots=True)
class Score:
    """Which of a chunk's positions report the log-probability of the token that follows them.

    The positions are `first`, `first + 1`, … one for each of `targets`, the known next tokens.
    """

    first: int
    targets: tuple[int, ...]
    top_logprobs: int


@dataclass(frozen=True, slots=True)
class Chunk:
    """One sequence's positions in a step: `tokens` at `ticket.base` and on."""

    ticket: Ticket
    tokens: tuple[int, ...]
    choose: Choose | None = None
    score: Score | None = None

    @property
    def start(self) -> int:
        """The first position."""
        return self.ticket.base

    @property
    def stop(self) -> int:
        """One past the last position."""
        return self.ticket.base + len(self.tokens)

    @property
    def num_logit_rows(self) -> int:
        """Rows of this chunk that need logits."""
        return (self.choose is not None) + (len(self.score.targets) if self.score else 0)


@dataclass(frozen=True, slots=True)
class Plan:
    """What one step computes. Steps are numbered from 1."""

    number: int
    chunks: tuple[Chunk, ...]

    @property
    def num_positions(self) -> int:
        """Positions that the step computes."""
        return sum(len(chunk.tokens) for chunk in self.chunks)


@dataclass(frozen=True, slots=True)
class ChunkResult:
    """What the device made of one chunk: the chosen token if one was asked for, the scores likewise."""

    ticket: Ticket
    token: int | None = None
    logprob: TokenLogprob | None = None
    scores: tuple[TokenLogprob, ...] = ()


@dataclass(frozen=True, slots=True)
class StepResult:
    """One result a chunk, in the plan's order, and where the time went, by stage name."""

    number: int
    chunks: tuple[ChunkResult, ...]
    seconds: tuple[tuple[str, float], ...] = ()


@dataclass(frozen=True, slots=True)
class Advance:
    """What a commit did to one sequence: its marks (published not yet raised), and what may be published.

    `publish_upto` is the `published` mark once `delta` is in the stream. `delta` is None when
    everything new is held back.
    """

    sequence: str
    marks: Marks
    publish_upto: int
    delta: Delta | None
    tokens: tuple[int, ...] = ()


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

    def execute(self, plan: Plan) -> Awaitable[StepResult]:
        """Compute the plan's positions, write their cache state, choose and score tokens.

        Starts at once, so that the caller can do other work before it awaits the result.
        """
        ...
