"""Sequence: one continuation being run for a request, the only mutable record of it."""

from collections import Counter
from enum import Enum
from typing import TYPE_CHECKING, assert_never

from engine.course import Course, Moment
from engine.held import Held
from engine.ledger import Ledger, Positions
from engine.request import Pooling, Request, TokenLogprob, Usage

if TYPE_CHECKING:
    from engine.errors import EngineError

PREDICTION = "prediction"  # the source of drafts that is the client's own guess


class State(Enum):
    """Where a sequence stands between two steps."""

    WAITING = "waiting"
    RUNNING = "running"
    PAUSED = "paused"
    PARKED = "parked"
    FINISHED = "finished"


class Sequence:
    """The tokens, places in the cache, ledger and state of one continuation.

    Written by: `tokens`, `prompt_logprobs`, `pooled`, `pooled_upto`, `first_output_at`, `last_output_at`,
    `drafts_kept`, `drafts_fallen` commit; `held`, `keys`, `stem` the block tables; `state`, `moments` the
    roster; `cached_tokens`, `admitted_at` admission; `aborted`, `abort_error`, `parked`, `stalled` the stream (flags
    that the next admit reads); `failures`, `failed_upto` commit and the engine.
    """

    __slots__ = (
        "abort_error",
        "aborted",
        "admitted_at",
        "arrived_at",
        "cached_tokens",
        "choice",
        "drafts_fallen",
        "drafts_kept",
        "epoch",
        "failed_upto",
        "failures",
        "first_output_at",
        "held",
        "id",
        "keys",
        "last_output_at",
        "ledger",
        "max_length",
        "moments",
        "number",
        "parked",
        "pooled",
        "pooled_upto",
        "prompt_logprobs",
        "request",
        "stalled",
        "state",
        "stem",
        "tokens",
    )

    def __init__(
        self,
        request: Request,
        choice: int,
        *,
        number: int,
        max_length: int,
        positions: Positions,
        arrived_at: float,
    ) -> None:
        self.id = f"{request.id}/{choice}"
        self.request = request
        self.choice = choice
        self.number = number  # the order of arrival, over all sequences
        self.max_length = max_length  # prompt and outputs together never exceed it
        self.arrived_at = arrived_at
        self.admitted_at: float | None = None
        self.first_output_at: float | None = None
        self.last_output_at: float | None = None
        self.ledger = Ledger(prompt_tokens=len(request.prompt), positions=positions)
        self.tokens = list(request.prompt)  # exactly the accepted ones
        self.prompt_logprobs: list[TokenLogprob | None] = [None]
        self.pooled = b""  # the sum of hidden states, as in Pool
        self.pooled_upto = self.num_prompt - self.num_pooled  # the position whose state is added next
        self.held = Held()
        self.keys: list[bytes] = []  # prefix keys of the leading full blocks of `tokens`
        self.stem = 0  # the longest prefix that other sequences are known to have had in common with it
        self.epoch = 0
        self.failures = 0  # steps that failed with it, since it last got past them
        self.failed_upto = 0  # where the last of these would have brought it
        self.state = State.WAITING
        self.moments: list[Moment] = []  # the first of what befell it
        self.aborted = False
        self.abort_error: EngineError | None = None  # why, where the client did not simply leave
        self.stalled = False
        self.parked = False
        self.cached_tokens: int | None = None  # the first admission's prefix hit
        self.drafts_kept = Counter[str]()  # by source
        self.drafts_fallen = Counter[str]()

    @property
    def order(self) -> tuple[int, int]:
        """Who goes first: the lower priority number, then the earlier arrival."""
        return (self.request.priority, self.number)

    @property
    def num_prompt(self) -> int:
        """Tokens of the prompt."""
        return len(self.request.prompt)

    @property
    def num_outputs(self) -> int:
        """Outputs accepted so far."""
        return len(self.tokens) - self.num_prompt

    @property
    def num_owed(self) -> int:
        """Accepted tokens that the next steps must feed."""
        return self.ledger.accepted - self.ledger.computed

    @property
    def num_pooled(self) -> int:
        """Positions, the prompt's last ones, whose hidden states make the embedding."""
        match self.request.pooling:
            case None:
                return 0
            case Pooling.LAST:
                return 1
            case Pooling.MEAN:
                return self.num_prompt
            case other:
                assert_never(other)

    @property
    def max_hit(self) -> int:
        """The longest useful prefix hit: one token is computed anew, and every score and state still wanted."""
        longest = len(self.tokens) - 1
        if self.request.pooling is not None:
            longest = min(longest, self.pooled_upto)
        if self.request.prompt_logprobs is None or len(self.prompt_logprobs) == self.num_prompt:
            return longest
        return min(longest, len(self.prompt_logprobs) - 1)

    @property
    def usage(self) -> Usage:
        """What the ledger says that this sequence used."""
        return Usage(
            self.num_prompt,
            self.cached_tokens or 0,
            self.ledger.accepted - self.num_prompt,
            self.drafts_kept[PREDICTION],
            self.drafts_fallen[PREDICTION],
        )

    @property
    def course(self) -> Course:
        """What has befallen it so far."""
        return Course(
            choice=self.choice,
            usage=self.usage,
            drafts_kept=self.drafts_kept.total(),
            drafts_fallen=self.drafts_fallen.total(),
            num_preemptions=self.epoch,
            arrived_at=self.arrived_at,
            admitted_at=self.admitted_at,
            first_output_at=self.first_output_at,
            last_output_at=self.last_output_at,
            moments=tuple(self.moments),
        )

    def invalidate(self) -> None:
        """Forget what was computed; a result of an earlier epoch will be dropped."""
        self.ledger.invalidate()
        self.epoch += 1

    def check(self) -> None:
        """Assert the laws of one sequence between two steps."""
        self.ledger.check()
        assert self.ledger.accepted == len(self.tokens), "the tokens are the accepted ones"
        holds_nothing = self.state in (State.WAITING, State.PARKED, State.FINISHED)
        assert not (holds_nothing and self.held.anything), f"a {self.state.value} sequence holds no cache"
        if self.request.chooses_nothing or self.state is State.FINISHED:
            return
        assert self.ledger.computed < self.ledger.accepted, "the newest token has no cache state yet"
