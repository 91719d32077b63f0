"""The digest model: a runner without tensors whose every output depends on every cache slot below it.

A cache slot holds (token, position, chain), the chain being a hash over all slots that the group's layers see
below, read through the block table, and the slot's own token and position; a recurrent state is the tuple of all
tokens before. Tokens, logprobs and scores are hashes of a position's chains and of the state behind it. So a stale,
misplaced, leaked or poisoned read changes what comes out. `tests.answer` has the same outputs as a pure
function of a request's tokens.
"""

import asyncio
from array import array
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Protocol

from engine.cache.layout import CacheGroup, Layout, Reach, RowShape, StateArray, StateGroup
from engine.cache.sizing import CacheSizes
from engine.request import Sampling, TokenLogprob
from engine.step import Choose, Chosen, Chunk, ChunkResult, MaskSource, Plan, Score, StateUse, StepResult
from engine.text import Vocabulary

Slot = tuple[int, int, int]  # token, position, chain
State = tuple[int, ...]

EOS = 0
PIECES = (
    *(b"<eos>", b"<sep>", b"a", b"b", b"c", b" ", b"ab", b"bca"),
    *(b"\xe2", b"\x82", b"\xac", b"a\xe2\x82", b"\xacb"),  # the euro sign in pieces
    *(b"\xf0\x9f", b"\x98\x80", b"\xff", b""),
)
VOCABULARY = Vocabulary(PIECES, frozenset({EOS, 1}))
VOCABULARY_SIZE = len(PIECES) + 1  # the last id has a row in the model and no piece


_ROW = RowShape(num_kv_heads=1, key_dim=1, value_dim=1, dtype="float32")
_STATES = (StateGroup("digest", (9,), (StateArray("tokens", (1,)),)),)
FULL = Layout((CacheGroup((0,), _ROW),))
LAYOUTS = {
    "full": FULL,
    "window": Layout((CacheGroup((0, 1), _ROW, Reach.WINDOW, 5),)),
    "full and window": Layout((CacheGroup((0,), _ROW), CacheGroup((1, 2), _ROW, Reach.WINDOW, 3))),
    "full and chunks": Layout((CacheGroup((0, 3), _ROW), CacheGroup((1, 2, 4, 5), _ROW, Reach.CHUNK, 4))),
    "states": Layout((), _STATES),
    "full and states": Layout((CacheGroup((0,), _ROW),), _STATES),
    "all": Layout((CacheGroup((0,), _ROW), CacheGroup((1, 2), _ROW, Reach.WINDOW, 4)), _STATES),
}


def reaches(layout: Layout) -> list[CacheGroup]:
    """The group of each block table that a step has."""
    return [group for group, width in zip(layout.groups, layout.widths, strict=True) for _ in range(width)]


def chain(table: int, below: Iterable[Slot], token: int, position: int) -> int:
    """What the slot of `token` at `position` keeps of all that is seen below it through a table."""
    return hash((table, tuple(below), token, position))


def state_of(chains: Iterable[int], recurrent: State) -> int:
    """What logits are made of: the chains at a position, and the recurrent state behind it."""
    return hash((tuple(chains), recurrent))


def logprob(state: int, token: int) -> float:
    """The log-probability that the model in `state` gives to `token`."""
    return -(hash((state, token)) % 997) / 64


def token_logprob(state: int, token: int, top: int) -> TokenLogprob:
    """The token's log-probability with those of the `top` best tokens."""
    pairs = [(other, logprob(state, other)) for other in range(VOCABULARY_SIZE)] if top else []
    best = sorted(pairs, key=lambda pair: (-pair[1], pair[0]))[:top]
    return TokenLogprob(token, logprob(state, token), tuple(best))


def choose_token(state: int, choose: Choose, allowed: Collection[int] | None = None) -> int:
    """The token with the best score among the allowed ones, or those not banned; the lowest id among equals."""
    if allowed is None:
        allowed = [token for token in range(VOCABULARY_SIZE) if token not in choose.banned]
    scores = {token: _score(state, token, choose) for token in allowed}
    return max(scores, key=lambda token: (scores[token], -token), default=0)


def tokens_in(mask: bytes) -> list[int]:
    """The tokens that a mask allows."""
    return [token for token in range(8 * len(mask)) if mask[token // 8] >> token % 8 & 1]


def _score(state: int, token: int, choose: Choose) -> float:
    sampling = choose.sampling
    count = choose.outputs.count(token)
    score = logprob(state, token) - sampling.frequency_penalty * count - sampling.presence_penalty * bool(count)
    score -= (sampling.repetition_penalty - 1) * (token in choose.prompt or bool(count))
    score += dict(sampling.logit_bias).get(token, 0.0)
    return score if sampling.greedy else score + _noise(sampling, choose.choice, choose.output_index, token)


def _noise(sampling: Sampling, choice: int, output_index: int, token: int) -> float:
    draw = hash((sampling.seed, choice, output_index, token)) % 997
    return sampling.temperature * draw / 64


def pool(before: bytes, states: Iterable[int]) -> bytes:
    """The sum with those states' hidden values added, one after the other: in another order it is rounded otherwise."""
    total = array("d", before or bytes(2 * 8))
    for state in states:
        for index in range(len(total)):
            total[index] += logprob(state, index) / 3
    return total.tobytes()


class DraftModel(Protocol):
    """What guesses tokens of a step before the digest model verifies them (`tests.draft_model`)."""

    def guess(self, chunk: Chunk) -> tuple[int, ...]:
        """Do what the chunk asks of it."""
        ...

    def spoil(self, chunk: Chunk, rubble: Slot) -> None:
        """Leave rubble where it would write."""
        ...

    def poison(self, unit: int, rubble: Slot) -> None:
        """Overwrite its rows beside a unit."""
        ...


class DigestRunner:
    """Answers every plan at once. Subclasses hold the answer back."""

    def __init__(
        self, layout: Layout, sizes: CacheSizes, *, block_size: int, draft_model: DraftModel | None = None
    ) -> None:
        self.incarnation = 0
        self.memory: list[Slot] = [(-1, -1, -1)] * (sizes.num_units * block_size)
        self.states: list[State] = [(-1,)] * sizes.num_slots
        self.plans: list[Plan] = []
        self._reaches = reaches(layout)
        self._is_recurrent = bool(layout.states)
        self._block_size = block_size
        self._num_poisoned = 0
        self._draft_model = draft_model

    def execute(self, plan: Plan, masks: MaskSource | None = None) -> asyncio.Future[StepResult]:
        """Take a plan and answer it."""
        self.plans.append(plan)
        future: asyncio.Future[StepResult] = asyncio.get_running_loop().create_future()
        future.set_result(self.compute(plan, masks))
        return future

    def compute(self, plan: Plan, masks: MaskSource | None = None) -> StepResult:
        """Write and read the cache as the plan says, and choose as the masks do."""
        by_chunk = [()] * len(plan.chunks) if masks is None else masks().by_chunk
        results = (self._answer(chunk, rows) for chunk, rows in zip(plan.chunks, by_chunk, strict=True))
        return StepResult(plan.number, tuple(results), (("digest", 0.0),))

    def _answer(self, chunk: Chunk, masks: Sequence[bytes]) -> ChunkResult:
        guesses = self._draft_model.guess(chunk) if self._draft_model else ()
        return replace(self._compute(chunk.with_guesses(guesses), masks), guesses=guesses)

    def _compute(self, chunk: Chunk, masks: Sequence[bytes]) -> ChunkResult:
        outcomes: list[int] = []
        recurrent = self._recurrent(chunk)
        for position, token in enumerate(chunk.tokens, start=chunk.start):
            chains = [self._write(chunk, table, token, position) for table in range(len(self._reaches))]
            if chunk.ticket.states is not None:
                recurrent = (*recurrent, token)
                self._keep(chunk.ticket.states, position + 1, recurrent)
            outcomes.append(state_of(chains, recurrent))
        if chunk.ticket.states is not None:
            self.states[chunk.ticket.states.target] = recurrent
        scores = () if chunk.score is None else self._scores(outcomes, chunk.start, chunk.score)
        pooled = b"" if chunk.pool is None else pool(chunk.pool.sum, outcomes[len(outcomes) - chunk.num_pooled :])
        chosen = () if chunk.choose is None else tuple(self._chosen(chunk, chunk.choose, outcomes, masks))
        return ChunkResult(chunk.ticket, chosen, scores, pooled)

    def _chosen(
        self, chunk: Chunk, choose: Choose, outcomes: Sequence[int], masks: Sequence[bytes]
    ) -> Iterator[Chosen]:
        """What is chosen behind the owed tokens and behind each draft, whether it stands or not."""
        for count, outcome in enumerate(outcomes[len(outcomes) - chunk.num_chosen :]):
            allowed = tokens_in(masks[count]) if masks else None
            token = choose_token(outcome, choose.after(chunk.drafts[:count]), allowed)
            top = choose.top_logprobs
            yield Chosen(token, None if top is None else token_logprob(outcome, token, top))

    def _scores(self, outcomes: Sequence[int], start: int, score: Score) -> tuple[TokenLogprob, ...]:
        return tuple(
            token_logprob(outcomes[position - start], target, score.top_logprobs)
            for position, target in enumerate(score.targets, start=score.first)
        )

    def _write(self, chunk: Chunk, table: int, token: int, position: int) -> int:
        first = self._reaches[table].first_seen(position)
        below = [self.memory[self._place(chunk, table, at)] for at in range(first, position)]
        state = chain(table, below, token, position)
        self.memory[self._place(chunk, table, position)] = (token, position, state)
        return state

    def _place(self, chunk: Chunk, table: int, position: int) -> int:
        seen = chunk.ticket.tables[table]
        number = position // self._block_size - seen.first
        assert number >= 0, f"position {position} is behind block {seen.first}, the first that is held"
        return seen.units[number] * self._block_size + position % self._block_size

    def _recurrent(self, chunk: Chunk) -> State:
        use = chunk.ticket.states
        assert (use is not None) == self._is_recurrent, "slots are for recurrent models"
        return () if use is None or use.source is None else self.states[use.source]

    def _keep(self, use: StateUse, position: int, recurrent: State) -> None:
        for at, slot in use.checkpoints:
            if at == position:
                self.states[slot] = recurrent

    def spoil(self, plan: Plan) -> None:
        """Leave what a step that broke off may have left: rubble wherever the plan would have written."""
        for chunk in plan.chunks:
            for table in range(len(self._reaches)):
                for position in range(chunk.start, chunk.stop):
                    self.memory[self._place(chunk, table, position)] = self._poison()
            if self._draft_model:
                self._draft_model.spoil(chunk, self._poison())
            if (use := chunk.ticket.states) is not None:
                for slot in (use.target, *(slot for _, slot in use.checkpoints)):
                    self.states[slot] = self._poison()

    def poison(self, units: Iterable[int], slots: Iterable[int] = ()) -> None:
        """Overwrite free units and slots, each time with something new."""
        for unit in units:
            for offset in range(self._block_size):
                self.memory[unit * self._block_size + offset] = self._poison()
            if self._draft_model:
                self._draft_model.poison(unit, self._poison())
        for slot in slots:
            self.states[slot] = self._poison()

    def content(self, unit: int) -> Sequence[Slot]:
        """The cache slots of one unit."""
        return self.memory[unit * self._block_size : (unit + 1) * self._block_size]

    def _poison(self) -> Slot:
        self._num_poisoned += 1
        return (-1, -1, -self._num_poisoned)
