"""Fakes of what the server talks to: an engine that says what it is told to, and a tokenizer of bytes."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass, field, replace

from anyio import CancelScope

from config.settings import ModelSettings, Settings
from engine.course import Course, Event, Moment
from engine.errors import ContextTooLong, EmptyPrompt, EngineError, RequestRefused, UnknownToken
from engine.ledger import Accepted, Computed, Marks, Planned, Positions, Published
from engine.look import Look, UnitTable, UnitView
from engine.request import Delta, End, FinishReason, Grammar, OutputToken, Pooling, Request, TokenLogprob, Usage
from engine.stats import (
    BlockCounts,
    CacheInfo,
    Histogram,
    ModelInfo,
    PaceView,
    SequenceView,
    Snapshot,
    StepRecord,
    TableView,
)
from engine.text import TextStream, Vocabulary
from server.service import Service

BOS, EOS = 256, 257
VOCABULARY = Vocabulary(
    [*(bytes([byte]) for byte in range(256)), b"<bos>", b"<eos>"], special_ids=frozenset({BOS, EOS})
)
CONTEXT = 64
TEMPLATE = "{{ messages }} {{ tools }}"  # knows tools, and no reasoning
INFO = ModelInfo(
    name="org/tiny",
    context_length=CONTEXT,
    model_context_length=CONTEXT,
    vocabulary_size=VOCABULARY.size,
    architecture="fake",
    dtype="float32",
    runs_on="fakes",
    cache=CacheInfo(
        16, num_blocks=8, block_bytes=64, dtype="float32", layout="full attention", groups=("full attention",)
    ),
    embedding_size=3,
)


class FakeTokenizer:
    """One token a byte. A conversation is `role:content` lines, each with its tool calls' names and arguments."""

    vocabulary = VOCABULARY
    eos_ids = frozenset({EOS})

    def __init__(
        self, *, bos_id: int | None = BOS, failure: Exception | None = None, chat_template: str | None = TEMPLATE
    ) -> None:
        self.bos_id = bos_id
        self.chat_template = chat_template
        self.failure = failure
        self.calls: list[dict[str, object]] = []

    def encode(self, text: str, *, add_special_tokens: bool) -> list[int]:
        """The text's bytes; BOS in front of an empty one if specials are asked for."""
        if self.failure is not None:
            raise self.failure
        return [BOS] if not text and add_special_tokens and self.bos_id is not None else list(text.encode())

    def encode_chat(
        self,
        messages: list[dict[str, object]],
        *,
        add_generation_prompt: bool,
        continue_final_message: bool,
        template_kwargs: dict[str, object],
    ) -> list[int]:
        """The contents' bytes; keeps what it was called with."""
        if self.failure is not None:
            raise self.failure
        self.calls.append(
            {
                "messages": messages,
                "add_generation_prompt": add_generation_prompt,
                "continue_final_message": continue_final_message,
                "template_kwargs": template_kwargs,
            }
        )
        return list("".join(str(message["content"]) for message in messages).encode())


@dataclass
class Script:
    """What one choice says, and what befalls it. `gate` is waited for before the token of that number."""

    text: str = "abcdefghijklmnopqrstuvwxyz"
    ends: bool = False  # with EOS after the text; else the text is repeated for ever
    gate: asyncio.Event | None = None
    gate_at: int = 0
    failure: EngineError | None = None
    failure_at: int = 0
    logprob: float = -0.5
    cached_tokens: int = 0

    def token(self, index: int) -> int:
        """The output token at an index."""
        data = self.text.encode()
        return EOS if self.ends and index >= len(data) else data[index % len(data)]


class FakeStream:
    """Deltas made from the scripts as they are asked for, one token of each choice in turn."""

    def __init__(self, request: Request, scripts: list[Script], *, context: int = CONTEXT) -> None:
        self.request = request
        self.closed = False
        self.ended = False
        self.parked = False
        self.num_parks = 0
        self._waiting: CancelScope | None = None
        self._turns: list[tuple[_Choice, Iterator[Delta]]] = []
        self._choices: list[_Choice] = []
        for number, script in enumerate(scripts):
            choice = _Choice(request, number, script, context)
            self._choices.append(choice)
            self._turns.append((choice, choice.deltas()))

    def __aiter__(self) -> AsyncIterator[Delta]:
        return self

    async def __anext__(self) -> Delta:
        while self._turns and not self.closed:
            choice, deltas = self._turns[0]
            with CancelScope() as self._waiting:
                await choice.waits()
            if self.closed:
                break
            del self._turns[0]
            delta = next(deltas, None)
            if delta is not None:
                self._turns.append((choice, deltas))
                return delta
        self.ended = not self._turns
        raise StopAsyncIteration

    @property
    def courses(self) -> tuple[Course, ...]:
        """Each choice waited a second, and had its tokens a half apart."""
        return tuple(choice.course for choice in self._choices)

    def close(self) -> None:
        """Say no more."""
        self.closed = True
        if self._waiting is not None:
            self._waiting.cancel()

    def park(self) -> None:
        """Wait for the client to come back."""
        self.parked = True
        self.num_parks += 1

    def unpark(self) -> None:
        """Go on."""
        self.parked = False


class _Choice:
    """One choice: its tokens through a real TextStream."""

    def __init__(self, request: Request, number: int, script: Script, context: int) -> None:
        self._context = context
        self._request = request
        self._number = number
        self._script = script
        self._count = 0

    @property
    def course(self) -> Course:
        """What has befallen it so far."""
        moments = (Moment(Event.ADMITTED, 101.0),)
        first, last = (101.5, 101.0 + 0.5 * self._count) if self._count else (None, None)
        return Course(self._number, self._usage(), 3, 2, 1, 100.0, 101.0, first, last, moments)

    async def waits(self) -> None:
        """Wait for the script's gate, if it is time."""
        if self._script.gate is not None and self._count >= self._script.gate_at:
            await self._script.gate.wait()

    def deltas(self) -> Iterator[Delta]:
        """Every delta of this choice."""
        request, script = self._request, self._script
        stopping = request.stopping
        text = TextStream(
            VOCABULARY,
            request.prompt,
            stop=stopping.strings,
            include_stop=stopping.include_stop,
            skip_special=request.skip_special_tokens,
            shown_special=request.shown_special_ids,
        )
        room = self._context - len(request.prompt)
        limit = room if stopping.max_tokens is None else min(room, stopping.max_tokens)
        held: list[int] = []
        scores = self._prompt_logprobs()
        reason = FinishReason.LENGTH if limit == 0 and script.failure is None else None
        matched: str | int | None = None
        while reason is None:
            if script.failure is not None and self._count >= script.failure_at:
                yield Delta(self._number, end=End(FinishReason.ERROR, self._usage(), error=script.failure))
                return
            token = script.token(self._count)
            self._count += 1
            held.append(token)
            if token in stopping.eos_ids | stopping.token_ids:
                text.push(token, silent=not stopping.include_stop)
                reason, matched = FinishReason.STOP, None if token in stopping.eos_ids else token
                break
            matched = text.push(token, matching=self._count >= stopping.min_tokens)
            if matched is not None:
                reason = FinishReason.STOP
            elif self._count >= limit:
                reason = FinishReason.LENGTH
            else:
                released = text.release()
                spans = [self._output(held.pop(0), span.offset, in_text=span.in_text) for span in released.spans]
                if released.text or spans:
                    yield Delta(self._number, released.text, tuple(spans), scores)
                    scores = None
        released = text.finish()
        spans = [self._output(held.pop(0), span.offset, in_text=span.in_text) for span in released.spans]
        end = End(reason, self._usage(), matched)
        yield Delta(self._number, released.text, tuple(spans), scores, end, self._embedding())

    def _usage(self) -> Usage:
        return Usage(len(self._request.prompt), self._script.cached_tokens, self._count)

    def _output(self, token: int, offset: int, *, in_text: bool) -> OutputToken:
        top = self._request.top_logprobs
        return OutputToken(token, offset, in_text, None if top is None else self._score(token, top))

    def _score(self, token: int, top: int) -> TokenLogprob:
        """The chosen token is never among the best."""
        others = (other for other in range(VOCABULARY.size) if other != token)
        best = tuple((other, -0.25 * rank) for rank, other in zip(range(1, top + 1), others, strict=False))
        return TokenLogprob(token, self._script.logprob, best)

    def _embedding(self) -> tuple[float, ...] | None:
        """The first token, the number of tokens, and 2.0 where all are pooled."""
        prompt, pooling = self._request.prompt, self._request.pooling
        return None if pooling is None else (float(prompt[0]), float(len(prompt)), 2.0 * (pooling is Pooling.MEAN))

    def _prompt_logprobs(self) -> tuple[TokenLogprob | None, ...] | None:
        top = self._request.prompt_logprobs
        if top is None:
            return None
        return (None, *(self._score(token, top) for token in self._request.prompt[1:]))


@dataclass
class FakeEngine:
    """Opens streams of `script`'s words, or raises `refusal`. Keeps everything that it opened."""

    script: Callable[[Request, int], Script] = field(default=lambda _request, _choice: Script())
    refusal: RequestRefused | None = None
    refuse_after: int = 0  # requests that are taken before the refusal
    accepting: bool = True
    stalled: bool = False
    info: ModelInfo = INFO
    vocabulary: Vocabulary = VOCABULARY
    opened: list[FakeStream] = field(default_factory=list)
    grammars: list[Grammar] = field(default_factory=list)
    grammar_refusal: RequestRefused | None = None
    observers: list[Callable[[StepRecord], None]] = field(default_factory=list)
    hearers: list[Callable[[str, Moment], None]] = field(default_factory=list)
    num_looks: int = 0
    held: dict[int, UnitView] = field(default_factory=dict)  # what units and slots hold

    async def prepare(self, grammar: Grammar) -> None:
        """Keep what was asked for, or raise `grammar_refusal`."""
        self.grammars.append(grammar)
        if self.grammar_refusal is not None:
            raise self.grammar_refusal

    def examine(self, request: Request) -> None:
        """Refuse what the engine would."""
        _refuse_as_the_engine_does(request, self.info.context_length)

    def open(self, request: Request) -> FakeStream:
        """A stream of every choice's script."""
        if self.refusal is not None and len(self.opened) >= self.refuse_after:
            raise self.refusal
        _refuse_as_the_engine_does(request, self.info.context_length)
        scripts = [self.script(request, choice) for choice in range(request.num_choices)]
        stream = FakeStream(request, scripts, context=self.info.context_length)
        self.opened.append(stream)
        return stream

    @property
    def requests(self) -> list[Request]:
        """What was asked, in order."""
        return [stream.request for stream in self.opened]

    def snapshot(self) -> Snapshot:
        """One sequence for each request that is open, with made-up marks."""
        views = tuple(_view(stream.request) for stream in self.opened if not stream.closed)
        empty = Histogram((1.0,)).view()
        return Snapshot(
            blocks=BlockCounts(free=5, allocated=1, shared=1, cached=1),
            groups=(BlockCounts(free=5, allocated=1, shared=1, cached=1),),
            slots=BlockCounts(free=0, allocated=0, shared=0, cached=0),
            tail_positions=3,
            positions=Positions(planned=9, computed=8, accepted=7, published=6, rejected=1, recomputed=2),
            running=len(views),
            waiting=0,
            paused=0,
            parked=0,
            steps=4,
            preemptions=0,
            disconnects=0,
            rollbacks={},
            refusals={},
            drafts={},
            grammars={},
            grammar_seconds=empty,
            prefix_queries=0,
            prefix_hits=0,
            time_to_first_token=empty,
            inter_token_latency=empty,
            queue=empty,
            step_positions=empty,
            step_seconds={},
            pace=PaceView(),
            sequences=views,
        )

    def look(self) -> Look:
        """The same; a unit of the pool changes with each that is opened."""
        self.num_looks += 1
        shown = self.snapshot()
        units = bytearray(self.info.cache.num_blocks)
        units[: len(self.opened)] = b"\1" * len(self.opened)
        tables: dict[str, tuple[UnitTable, ...]] = {view.id: (UnitTable(0, (0, 3)),) for view in shown.sequences}
        sequences = tuple(view._replace(tables=()) for view in shown.sequences)
        return Look(float(self.num_looks), replace(shown, sequences=sequences), bytes(units), b"", tables)

    def unit(self, unit: int) -> UnitView | None:
        """What was put there."""
        return self.held.get(unit)

    def slot(self, slot: int) -> UnitView | None:
        """The same."""
        return self.held.get(slot)

    def courses(self) -> dict[str, Course]:
        """What has befallen whatever is open."""
        return {
            f"{stream.request.id}/{course.choice}": course
            for stream in self.opened
            if not stream.closed
            for course in stream.courses
        }

    def observe(
        self,
        note: Callable[[StepRecord], None],
        *,
        with_tables: bool = True,
        hear: Callable[[str, Moment], None] | None = None,
    ) -> Callable[[], None]:
        """Keep who wants to know."""
        assert not with_tables, "nobody needs tables of each step"
        assert hear is not None, "who notes steps hears of the rest"
        self.observers.append(note)
        self.hearers.append(hear)

        def stop() -> None:
            self.observers.remove(note)
            self.hearers.remove(hear)

        return stop


def _refuse_as_the_engine_does(request: Request, context: int) -> None:
    if not request.prompt:
        raise EmptyPrompt
    for name, tokens in (
        ("prompt", request.prompt),
        ("stop_token_ids", tuple(request.stopping.token_ids)),
        ("logit_bias", tuple(token for token, _ in request.sampling.logit_bias)),
    ):
        for token in tokens:
            if not 0 <= token < VOCABULARY.size:
                raise UnknownToken(field=name, token=token, vocabulary_size=VOCABULARY.size)
    if len(request.prompt) + (not request.chooses_nothing) > context:
        raise ContextTooLong(prompt_tokens=len(request.prompt), limit=context)


def _view(request: Request) -> SequenceView:
    length = len(request.prompt)
    return SequenceView(
        id=f"{request.id}/0",
        request_id=request.id,
        choice=0,
        state="running",
        marks=Marks(Planned(length), Computed(length), Accepted(length + 1), Published(length)),
        prompt_tokens=length,
        output_tokens=1,
        cached_tokens=0,
        max_length=CONTEXT,
        priority=0,
        age_seconds=0.5,
        tables=(TableView(0, 0, ((0, 1), (3, 2))),),
    )


@dataclass(frozen=True)
class FakeBuilt:
    """A loaded model."""

    engine: FakeEngine
    tokenizer: FakeTokenizer


def make_settings(**server: object) -> Settings:
    """Settings of a server for the fake model, which has an alias."""
    return Settings.model_validate({"model": ModelSettings(path="org/tiny", aliases=("gpt-4o",)), "server": server})


def make_service(
    engine: FakeEngine | None = None, tokenizer: FakeTokenizer | None = None, settings: Settings | None = None
) -> Service:
    """A service whose fake model has loaded."""
    service = Service(settings or make_settings(), clock=lambda: 1_700_000_000.9)
    service.attach(FakeBuilt(engine or FakeEngine(), tokenizer or FakeTokenizer()))
    return service
