"""A client of the engine: it reads its stream, slowly or at once, or leaves, and knows what it has to get."""

import asyncio
from collections.abc import Sequence as Run
from dataclasses import replace
from itertools import chain

from engine.errors import EngineError, GrammarFailed, SlowReader, StepFailed
from engine.request import Delta, End, FinishReason, Pooling, Request
from engine.sequence import Sequence
from engine.stream import DeltaStream
from tests.answer import Answer, answer
from tests.laws.shape import Shape


class Client:
    """One request's reader. An eager one reads whatever comes, another only what `allow` lets it."""

    def __init__(
        self, request: Request, sequences: Run[Sequence], stream: DeltaStream, *, eager: bool, shape: Shape
    ) -> None:
        self.request = request
        self.sequences = tuple(sequences)
        self.stream = stream
        self.deltas: list[Delta] = []
        self.left = False
        self.parked = False
        self.num_unread = 0  # outputs that were in the stream as the client left
        self.excuses: set[type[EngineError]] = set()  # errors that it may get
        if not eager:
            self.excuses.add(SlowReader)
        self._eager = eager
        self._shape = shape
        self._allowed = asyncio.Semaphore(0)

    async def read(self) -> None:
        """Read to the end of the stream, which whoever leaves closes, unless it is parked."""
        try:
            await self._read_on()
        finally:
            if not self.parked:
                self.stream.close()

    async def _read_on(self) -> None:
        while True:
            if not self._eager:
                await self._allowed.acquire()
            try:
                self.deltas.append(await anext(self.stream))
            except StopAsyncIteration:
                return

    def park(self) -> None:
        """Leave, and perhaps come back."""
        self.parked = True
        self.stream.park()

    def unpark(self) -> None:
        """Come back."""
        self.parked = False
        self.stream.unpark()

    def allow(self, count: int) -> None:
        """Let `count` more deltas be read."""
        for _ in range(count):
            self._allowed.release()

    def hurry(self) -> None:
        """Read everything from now on."""
        self._eager = True
        self.allow(1)

    def note_leaving(self) -> None:
        """The client is about to leave: what it has not read is lost."""
        if not self.stream.closed:
            self.num_unread = sum(len(delta.tokens) for delta in self.stream._deltas)
            self.left = True

    def note_failed_step(self, *, alone: bool) -> None:
        """A step that computed a sequence of this request has failed."""
        if alone:
            self.excuses.add(StepFailed)

    @property
    def num_published(self) -> int:
        """Outputs that were handed to the stream."""
        return sum(len(delta.tokens) for delta in self.deltas) + self.num_unread

    def check_buffer(self, max_deltas: int) -> None:
        """A stream is bounded: beyond the limit come only what was in flight, and the ends."""
        assert len(self.stream._deltas) <= max_deltas + 3 * self.request.num_choices

    def check(self) -> None:
        """Compare all that was received with what a pure function of the tokens says."""
        for sequence in self.sequences:
            deltas = [delta for delta in self.deltas if delta.choice == sequence.choice]
            expected = self._answer(sequence, self.request)
            outputs = tuple(sequence.tokens[sequence.num_prompt :])
            assert outputs == tuple(token.id for token in expected.tokens)[: len(outputs)], "accepted tokens are final"
            ends = [delta.end for delta in deltas if delta.end is not None]
            assert len(ends) == 1 or (self.left and not ends), f"one terminal event, not {ends}"
            if ends:
                assert deltas[-1].end is ends[0], "nothing follows the end"
                self._check_ended(sequence, deltas, ends[0], expected)
            else:
                _check_beginning(deltas, expected)

    def _answer(self, sequence: Sequence, request: Request) -> Answer:
        return answer(request, sequence.choice, context_length=self._shape.context_length, layout=self._shape.layout)

    def _check_ended(self, sequence: Sequence, deltas: Run[Delta], end: End, expected: Answer) -> None:
        self._check_usage(sequence, end)
        if expected.reason is FinishReason.ERROR and isinstance(end.error, GrammarFailed):
            assert end.reason is FinishReason.ERROR
        elif end.error is None:
            assert (end.reason, end.matched) == (expected.reason, expected.matched)
            assert _scores(deltas) == expected.prompt_logprobs
            assert deltas[-1].embedding == expected.embedding
        else:
            assert end.reason is FinishReason.ERROR
            assert type(end.error) in self.excuses, f"{end.error!r} has no cause"
            assert _scores(deltas) in (None, expected.prompt_logprobs)
            expected = self._answer(sequence, _cut_to(self.request, sequence.num_outputs))
        assert _text(deltas) == expected.text
        assert _tokens(deltas) == expected.tokens

    def _check_usage(self, sequence: Sequence, end: End) -> None:
        usage = end.usage
        assert usage.prompt_tokens == len(self.request.prompt)
        assert usage.output_tokens == sequence.num_outputs, "usage is what the ledger accepted"
        assert usage.cached_tokens < usage.prompt_tokens, "a hit leaves a token to compute"
        if self.request.prompt_logprobs is not None:
            assert usage.cached_tokens == 0, "scores are computed, not found"
        if self.request.pooling is Pooling.MEAN:
            assert usage.cached_tokens == 0, "hidden states are computed, not found"


def _check_beginning(deltas: Run[Delta], expected: Answer) -> None:
    """What a client had received as it left is the beginning of the whole answer."""
    tokens = _tokens(deltas)
    assert tokens == expected.tokens[: len(tokens)]
    assert expected.text.startswith(_text(deltas))
    assert _scores(deltas) in (None, expected.prompt_logprobs)


def _text(deltas: Run[Delta]) -> str:
    return "".join(delta.text for delta in deltas)


def _tokens(deltas: Run[Delta]) -> tuple[object, ...]:
    return tuple(chain.from_iterable(delta.tokens for delta in deltas))


def _scores(deltas: Run[Delta]) -> object:
    scores = [delta.prompt_logprobs for delta in deltas if delta.prompt_logprobs is not None]
    assert len(scores) <= 1, "the prompt's logprobs come once"
    return scores[0] if scores else None


def _cut_to(request: Request, num_outputs: int) -> Request:
    """The same request, ended after so many outputs."""
    return replace(request, stopping=replace(request.stopping, max_tokens=num_outputs))
