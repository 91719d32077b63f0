"""What a request must be answered, as a pure function of its tokens: no cache, no batch, no streaming."""

from array import array
from codecs import getincrementaldecoder
from collections.abc import Iterable
from dataclasses import dataclass

from engine.cache.layout import CacheGroup, Layout
from engine.request import FinishReason, OutputToken, Pooling, Request, TokenLogprob
from engine.step import Choose
from tests.digest import FULL, VOCABULARY, Slot, chain, choose_token, pool, reaches, state_of, token_logprob
from tests.toy_grammar import choosable, is_complete


@dataclass(frozen=True, slots=True)
class Answer:
    """Everything that one choice of a request has to receive."""

    text: str
    tokens: tuple[OutputToken, ...]
    prompt_logprobs: tuple[TokenLogprob | None, ...] | None
    reason: FinishReason
    matched: str | int | None
    embedding: tuple[float, ...] | None = None


class _Model:
    """The digest model over a whole sequence."""

    def __init__(self, layout: Layout) -> None:
        self._columns: list[tuple[CacheGroup, list[Slot]]] = [(group, []) for group in reaches(layout)]
        self._is_recurrent = bool(layout.states)
        self._tokens: list[int] = []
        self.outcomes: list[int] = []

    def append(self, token: int) -> None:
        """Compute one more token."""
        position = len(self._tokens)
        self._tokens.append(token)
        for table, (group, slots) in enumerate(self._columns):
            below = slots[group.first_seen(position) :]
            slots.append((token, position, chain(table, below, token, position)))
        chains = [slots[-1][2] for _, slots in self._columns]
        self.outcomes.append(state_of(chains, tuple(self._tokens) if self._is_recurrent else ()))


def answer(request: Request, choice: int, *, context_length: int, layout: Layout = FULL) -> Answer:
    """The digest model's answer to one choice of `request`."""
    model = _Model(layout)
    for token in request.prompt:
        model.append(token)
    room = context_length - len(request.prompt)
    wanted = request.stopping.max_tokens
    limit = room if wanted is None else min(room, wanted)
    text = _Text(request)
    logprobs: list[TokenLogprob | None] = []
    reason: FinishReason | None = FinishReason.LENGTH if limit == 0 else None
    while reason is None:
        choose = _choose(request, choice, text.outputs)
        allowed = choosable(request, text.outputs, choose.banned)
        if allowed is not None and not allowed:
            reason = FinishReason.ERROR
            break
        token = choose_token(model.outcomes[-1], choose, allowed)
        top = request.top_logprobs
        logprobs.append(None if top is None else token_logprob(model.outcomes[-1], token, top))
        model.append(token)
        if text.add(token) or is_complete(request, text.outputs):
            reason = FinishReason.STOP
        elif len(text.outputs) == limit:
            reason = FinishReason.LENGTH
    scores, embedding = _prompt_logprobs(request, model.outcomes), _embedding(request, model.outcomes)
    return Answer(text.whole(), text.listed(logprobs), scores, reason, text.matched, embedding)


def _choose(request: Request, choice: int, outputs: list[int]) -> Choose:
    stopping = request.stopping
    banned = stopping.eos_ids | stopping.token_ids if len(outputs) < stopping.min_tokens else frozenset()
    return Choose(request.sampling, choice, len(outputs), request.prompt, tuple(outputs), tuple(banned))


def _prompt_logprobs(request: Request, outcomes: list[int]) -> tuple[TokenLogprob | None, ...] | None:
    top = request.prompt_logprobs
    if top is None:
        return None
    pairs = zip(outcomes, request.prompt[1:], strict=False)
    return (None, *(token_logprob(outcome, target, top) for outcome, target in pairs))


def _embedding(request: Request, outcomes: list[int]) -> tuple[float, ...] | None:
    if request.pooling is None:
        return None
    states = outcomes[-1:] if request.pooling is Pooling.LAST else outcomes
    return tuple(value / len(states) for value in array("d", pool(b"", states)))


def outcomes(layout: Layout, tokens: Iterable[int]) -> list[int]:
    """What the digest model makes of each position of these tokens."""
    model = _Model(layout)
    for token in tokens:
        model.append(token)
    return model.outcomes


class _Text:
    """The text of all outputs so far, decoded anew for each: slow and plain."""

    def __init__(self, request: Request) -> None:
        self._request = request
        self._stopping = request.stopping
        prompt = b"".join(VOCABULARY.bytes_of(token, skip_special=False) for token in request.prompt)
        self._begun = _begun_character(prompt)
        self._pieces: list[bytes] = []
        self._cut: int | None = None
        self.outputs: list[int] = []
        self.matched: str | int | None = None

    def add(self, token: int) -> bool:
        """Take one output; whether it is the last."""
        stopping = self._stopping
        self.outputs.append(token)
        if token in stopping.eos_ids | stopping.token_ids:
            self._pieces.append(self._piece(token) if stopping.include_stop else b"")
            self.matched = None if token in stopping.eos_ids else token
            return True
        self._pieces.append(self._piece(token))
        return len(self.outputs) >= stopping.min_tokens and self._match()

    def _piece(self, token: int) -> bytes:
        return VOCABULARY.bytes_of(token, skip_special=self._request.skip_special_tokens)

    def _match(self) -> bool:
        """Look for the first stop string that ends in the newest characters."""
        before, text = self._decoded(len(self._pieces) - 1), self._decoded(len(self._pieces))
        for end in range(len(before) + 1, len(text) + 1):
            stops = [stop for stop in self._stopping.strings if text[:end].endswith(stop)]
            if stops:
                self.matched = max(stops, key=len)
                self._cut = end - (0 if self._stopping.include_stop else len(self.matched))
                return True
        return False

    def _data(self, count: int) -> bytes:
        """The bytes of the first `count` outputs, led by the prompt's half character if they go on with it."""
        data = b"".join(self._pieces[:count])
        first = b"".join(self._pieces)[:1]
        goes_on = bool(first) and len((self._begun + first).decode("utf-8", "replace")) == 1
        return self._begun + data if goes_on else data

    def _decoded(self, count: int) -> str:
        """The whole characters of the first `count` outputs."""
        return getincrementaldecoder("utf-8")("replace").decode(self._data(count)) if self._has_bytes(count) else ""

    def _has_bytes(self, count: int) -> bool:
        return any(self._pieces[:count])

    def whole(self) -> str:
        """The text up to the cut."""
        return self._data(len(self._pieces)).decode("utf-8", "replace")[: self._cut] if any(self._pieces) else ""

    def listed(self, logprobs: list[TokenLogprob | None]) -> tuple[OutputToken, ...]:
        """Each output as it is to be published."""
        return tuple(
            OutputToken(token, self._offset(index), self._in_text(index), logprobs[index])
            for index, token in enumerate(self.outputs)
        )

    def _start(self, index: int) -> int:
        """The index of the character that the token's first byte belongs to, or would."""
        if not self._pieces[index]:
            return len(self._decoded(index))
        data = self._data(index + 1)
        begin = len(data) - len(self._pieces[index])
        return len(data[: begin + 1].decode("utf-8", "replace")) - 1

    def _offset(self, index: int) -> int:
        start = self._start(index)
        return start if self._cut is None else min(start, self._cut)

    def _in_text(self, index: int) -> bool:
        stopping, token = self._stopping, self.outputs[index]
        if token in stopping.eos_ids | stopping.token_ids and not stopping.include_stop:
            return False
        if self._cut is None:
            return True
        start = self._start(index)
        return start < self._cut or (start == self._cut and not self._touches_a_character(index))

    def _touches_a_character(self, index: int) -> bool:
        """Whether the token has bytes, or stands within a character."""
        return bool(self._pieces[index]) or (self._has_bytes(index) and bool(_begun_character(self._data(index))))


def _begun_character(data: bytes) -> bytes:
    """The bytes at the end of `data` that begin a character."""
    decoder = getincrementaldecoder("utf-8")("replace")
    decoder.decode(data)
    return decoder.getstate()[0]
