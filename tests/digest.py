"""The digest model: a runner without tensors whose every output depends on every cache slot below it.

A slot holds (token, position, chain), the chain being a hash over all slots below, read through the
block table, and the slot's own token and position. Tokens, logprobs and scores are hashes of chains.
So a stale, misplaced, leaked or poisoned read changes what comes out. `tests.answer` has the same
outputs as a pure function of a request's tokens.
"""

import asyncio
from collections.abc import Callable, Iterable, Sequence

from engine.request import Sampling, TokenLogprob
from engine.step import Choose, Chunk, ChunkResult, Plan, Score, StepResult
from engine.text import Vocabulary

Slot = tuple[int, int, int]  # token, position, chain

EOS = 0
PIECES = (
    *(b"<eos>", b"<sep>", b"a", b"b", b"c", b" ", b"ab", b"bca"),
    *(b"\xe2", b"\x82", b"\xac", b"a\xe2\x82", b"\xacb"),  # the euro sign in pieces
    *(b"\xf0\x9f", b"\x98\x80", b"\xff", b""),
)
VOCABULARY = Vocabulary(PIECES, frozenset({EOS, 1}))
VOCABULARY_SIZE = len(PIECES) + 1  # the last id has a row in the model and no piece


def chain(below: Iterable[Slot], token: int, position: int) -> int:
    """What the slot of `token` at `position` keeps of everything below it."""
    return hash((tuple(below), token, position))


def logprob(state: int, token: int) -> float:
    """The log-probability that the model in `state` gives to `token`."""
    return -(hash((state, token)) % 997) / 64


def token_logprob(state: int, token: int, top: int) -> TokenLogprob:
    """The token's log-probability with those of the `top` best tokens."""
    pairs = [(other, logprob(state, other)) for other in range(VOCABULARY_SIZE)] if top else []
    best = sorted(pairs, key=lambda pair: (-pair[1], pair[0]))[:top]
    return TokenLogprob(token, logprob(state, token), tuple(best))


def choose_token(state: int, choose: Choose) -> int:
    """The token with the best score that is not banned, the lowest id among equals."""
    scores = {token: _score(state, token, choose) for token in range(VOCABULARY_SIZE) if token not in choose.banned}
    return max(scores, key=lambda token: (scores[token], -token))


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


class DigestRunner:
    """Answers every plan at once. Subclasses hold the answer back."""

    def __init__(self, *, num_blocks: int, block_size: int) -> None:
        self.incarnation = 0
        self.memory: list[Slot] = [(-1, -1, -1)] * (num_blocks * block_size)
        self.plans: list[Plan] = []
        self._block_size = block_size
        self._num_blocks = num_blocks
        self._num_poisoned = 0

    def execute(self, plan: Plan) -> asyncio.Future[StepResult]:
        """Take a plan and answer it."""
        self.plans.append(plan)
        future: asyncio.Future[StepResult] = asyncio.get_running_loop().create_future()
        future.set_result(self.compute(plan))
        return future

    def compute(self, plan: Plan) -> StepResult:
        """Write and read the cache as the plan says."""
        return StepResult(plan.number, tuple(self._compute(chunk) for chunk in plan.chunks), (("digest", 0.0),))

    def _compute(self, chunk: Chunk) -> ChunkResult:
        for position, token in enumerate(chunk.tokens, start=chunk.start):
            state = chain(self._read(chunk, position), token, position)
            self.memory[self._place(chunk, position)] = (token, position, state)
        scores = () if chunk.score is None else self._scores(chunk, chunk.score)
        if chunk.choose is None:
            return ChunkResult(chunk.ticket, scores=scores)
        state = self._state(chunk, chunk.stop - 1)
        token = choose_token(state, chunk.choose)
        top = chunk.choose.top_logprobs
        listed = None if top is None else token_logprob(state, token, top)
        return ChunkResult(chunk.ticket, token, listed, scores)

    def _scores(self, chunk: Chunk, score: Score) -> tuple[TokenLogprob, ...]:
        return tuple(
            token_logprob(self._state(chunk, position), target, score.top_logprobs)
            for position, target in enumerate(score.targets, start=score.first)
        )

    def _state(self, chunk: Chunk, position: int) -> int:
        return self.memory[self._place(chunk, position)][2]

    def _read(self, chunk: Chunk, upto: int) -> list[Slot]:
        return [self.memory[self._place(chunk, position)] for position in range(upto)]

    def _place(self, chunk: Chunk, position: int) -> int:
        block = chunk.ticket.blocks[position // self._block_size]
        return block * self._block_size + position % self._block_size

    def spoil(self, plan: Plan) -> None:
        """Leave what a step that broke off may have left: rubble wherever the plan would have written."""
        for chunk in plan.chunks:
            for position in range(chunk.start, chunk.stop):
                self.memory[self._place(chunk, position)] = self._poison()

    def poison(self, is_free: Callable[[int], bool]) -> None:
        """Overwrite every free block, each time with something new."""
        for block in filter(is_free, range(self._num_blocks)):
            for offset in range(self._block_size):
                self.memory[block * self._block_size + offset] = self._poison()

    def content(self, block: int) -> Sequence[Slot]:
        """The slots of one block."""
        return self.memory[block * self._block_size : (block + 1) * self._block_size]

    def _poison(self) -> Slot:
        self._num_poisoned += 1
        return (-1, -1, -self._num_poisoned)
