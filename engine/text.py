"""Text from tokens: the vocabulary's bytes, what a tokenizer offers, and one sequence's growing text.

Text is decoded from bytes, never from token strings, so a character may be split over any number of
tokens. All offsets count characters of a sequence's output text, from 0.
"""

from codecs import utf_8_decode
from collections import deque
from collections.abc import Iterable, Sequence
from typing import NamedTuple, Protocol

from engine.stops import StopStrings

MAX_CHARACTER_BYTES = 4  # UTF-8's longest


class Vocabulary:
    """What each token id spells, in bytes.

    `pieces[id]` is b"" for an id that spells nothing; ids past the last piece (a model's padded
    rows) spell nothing either. `drops_first_space` says that a whole text loses one leading space,
    which the tokenizer had added (SentencePiece's dummy prefix).
    """

    __slots__ = ("_pieces", "drops_first_space", "size", "special_ids")

    def __init__(
        self, pieces: Sequence[bytes], special_ids: frozenset[int], *, drops_first_space: bool = False
    ) -> None:
        self._pieces = tuple(pieces)
        self.size = len(self._pieces)
        self.special_ids = special_ids
        self.drops_first_space = drops_first_space

    def bytes_of(self, token: int, *, skip_special: bool) -> bytes:
        """The token's bytes; none for a skipped special token and for an id without a piece."""
        if not 0 <= token < self.size or (skip_special and token in self.special_ids):
            return b""
        return self._pieces[token]

    def first_difference(self, other: "Vocabulary") -> int | None:
        """The lowest id that is not the same to both, in its bytes or in whether it is special."""

        def entry(vocabulary: Vocabulary, token: int) -> tuple[bytes, bool]:
            return vocabulary.bytes_of(token, skip_special=False), token in vocabulary.special_ids

        ids = range(max(self.size, other.size))
        return next((token for token in ids if entry(self, token) != entry(other, token)), None)

    def text_of(self, token: int) -> str:
        """The token alone, as text: special tokens as their literal, broken characters as U+FFFD."""
        return self.bytes_of(token, skip_special=False).decode("utf-8", "replace")

    def decode(self, tokens: Iterable[int], *, skip_special: bool) -> str:
        """The text of `tokens` as one whole text; broken characters become U+FFFD."""
        text = b"".join(self.bytes_of(token, skip_special=skip_special) for token in tokens).decode("utf-8", "replace")
        return text.removeprefix(" ") if self.drops_first_space else text


class Tokenizer(Protocol):
    """Text and messages to tokens. Pure and thread-safe; one call may take long, so it runs on a thread.

    `chat_template` is the template's own text, in Jinja.
    """

    vocabulary: Vocabulary
    eos_ids: frozenset[int]
    bos_id: int | None
    chat_template: str | None

    def encode(self, text: str, *, add_special_tokens: bool) -> list[int]:
        """The tokens of a raw prompt, in which a control token's spelling is that token.

        Whoever writes a raw prompt may write the model's chat format by hand. `add_special_tokens`
        adds what the model's tokenizer adds (BOS). A lone surrogate becomes U+FFFD.

        Raises:
            PromptError: the tokenizer failed.
        """
        ...

    def encode_chat(
        self,
        messages: list[dict[str, object]],
        *,
        add_generation_prompt: bool,
        continue_final_message: bool,
        template_kwargs: dict[str, object],
    ) -> list[int]:
        """The tokens of a conversation in the model's own format.

        Control tokens come from the template alone: where a message spells one, it stays text.
        The exception is an assistant's message, the model's own output: there, added tokens that
        are not special (`<think>`) are themselves again.

        Raises:
            NoChatTemplate: the model has none.
            ChatTemplateFailed: the template refused the messages or broke on them.
            VariableReserved: one of `template_kwargs` has a name that is the renderer's own.
            PromptError: the tokenizer failed.
        """
        ...


class Span(NamedTuple):  # cheaper to make than a dataclass, and one is made for every token
    """Where one released token stands in the output text.

    `offset` is the number of characters before the token's own bytes: one that begins within a
    character has that character's index. `in_text` is False for a silent token and for a token of
    which nothing is left by a stop string's cut; one that the cut goes through is in the text.
    """

    offset: int
    in_text: bool


class Released(NamedTuple):
    """Text that is final, and a span for each token that is now wholly released, in order."""

    text: str
    spans: tuple[Span, ...] = ()


class _Extent(NamedTuple):
    """One token's characters: `start` to `end` of the output text, a begun character included."""

    start: int
    end: int
    silent: bool


class TextStream:
    """The text of one sequence as its tokens are accepted, cut at the first stop string.

    All releases and the finish add up to the whole text, however tokens split it and whenever it is
    released. Held back are a begun character and the longest end that could still become a stop
    string. A token is released when all its characters are.

    The stop string that is completed first wins; of those completed by the same character the
    longest, since it begins first. With `matching=False` (before `min_tokens`) a stop string that
    the token completes doesn't count; one that a later token completes does, wherever it began.

    Of special tokens that are skipped those of `shown_special` are in the text all the same.

    `prompt` may end in a begun character: the outputs complete it, and the text starts with it.
    """

    __slots__ = (
        "_cut",
        "_extents",
        "_fresh",
        "_held",
        "_include_stop",
        "_length",
        "_partial",
        "_shown_special",
        "_skip_special",
        "_stops",
        "_strip",
        "_vocabulary",
    )

    def __init__(
        self,
        vocabulary: Vocabulary,
        prompt: Sequence[int],
        *,
        stop: tuple[str, ...],
        include_stop: bool,
        skip_special: bool,
        shown_special: frozenset[int] = frozenset(),
    ) -> None:
        self._vocabulary = vocabulary
        self._shown_special = shown_special
        self._include_stop = include_stop
        self._skip_special = skip_special
        self._stops = StopStrings(stop)
        self._strip = vocabulary.drops_first_space and not prompt
        self._partial = _begun_character(vocabulary, prompt)  # bytes of a character that is not whole yet
        self._fresh = True  # no output has had bytes
        self._length = 0  # characters decoded
        self._held = ""  # of these, the ones not released
        self._cut: int | None = None  # where the text ends
        self._extents: deque[_Extent] = deque()  # of the tokens not released

    def push(self, token: int, *, silent: bool = False, matching: bool = True) -> str | None:
        """Take one accepted token; return the stop string that it completes, if it completes one.

        A `silent` token adds no text.
        """
        assert self._cut is None, "nothing follows a stop string"
        skip = self._skip_special and token not in self._shown_special
        piece = b"" if silent else self._vocabulary.bytes_of(token, skip_special=skip)
        start = self._length
        if piece:
            piece = self._begin(piece)
            start += self._breaks(piece)
        matched = self._append(piece, matching=matching)
        self._extents.append(_Extent(start, self._length + self._has_begun, silent))
        return matched

    def release(self) -> Released:
        """What may be published now."""
        limit = self._length - self._stops.held if self._cut is None else self._cut
        spans = []
        while self._extents and self._extents[0].end <= limit:
            spans.append(self._span(self._extents.popleft()))
        return Released(self._take(limit), tuple(spans))

    def finish(self) -> Released:
        """Everything held, up to the stop string's cut; a character that stays begun becomes U+FFFD."""
        if self._cut is None and self._has_begun:
            self._held += "\ufffd"
            self._length += 1
        text = self._take(self._length if self._cut is None else self._cut)
        spans = tuple(self._span(extent) for extent in self._extents)
        self._extents.clear()
        self._partial = b""
        return Released(text, spans)

    @property
    def _has_begun(self) -> bool:
        """Whether the outputs end in a begun character; the prompt's own is not theirs until they go on with it."""
        return bool(self._partial) and not self._fresh

    def _begin(self, piece: bytes) -> bytes:
        """The first bytes of the output, without what belongs to the prompt or to the tokenizer."""
        if not self._fresh:
            return piece
        self._fresh = False
        if self._breaks(piece):
            self._partial = b""  # the prompt's own broken character
        return piece.removeprefix(b" ") if self._strip else piece

    def _breaks(self, piece: bytes) -> bool:
        """Whether a character was begun that the piece's first byte does not go on with."""
        if not self._partial:
            return False
        data = self._partial + piece[:1]
        return _decode(data)[0].encode() not in (b"", data)  # neither still begun nor now whole

    def _append(self, piece: bytes, *, matching: bool) -> str | None:
        """Decode a piece onto the text; return the stop string that ends in it and set the cut."""
        text, self._partial = _decode(self._partial + piece)
        match = self._stops.feed(text, matching=matching)
        if match is not None:
            string, count = match
            self._cut = self._length + count - (0 if self._include_stop else len(string))
        self._held += text
        self._length += len(text)
        return None if match is None else match[0]

    def _take(self, limit: int) -> str:
        """Held text below `limit`, which is no longer held."""
        count = limit - (self._length - len(self._held))
        text, self._held = self._held[:count], self._held[count:]
        return text

    def _span(self, extent: _Extent) -> Span:
        """A token that has no characters of its own is in the text up to the cut."""
        behind = self._cut is not None and extent.start + (extent.start < extent.end) > self._cut
        offset = extent.start if self._cut is None else min(extent.start, self._cut)
        return Span(offset, in_text=not (extent.silent or behind))


def _begun_character(vocabulary: Vocabulary, tokens: Sequence[int]) -> bytes:
    """The bytes at the end of `tokens` that a further byte could make a character."""
    tail = b""
    for token in reversed(tokens):
        tail = vocabulary.bytes_of(token, skip_special=False) + tail
        if len(tail) >= MAX_CHARACTER_BYTES:
            break
    ends = (tail[-count:] for count in range(min(len(tail), MAX_CHARACTER_BYTES - 1), 0, -1))
    return next((end for end in ends if _decode(end) == ("", end)), b"")


def _decode(data: bytes) -> tuple[str, bytes]:
    """The characters that are whole or surely broken, and the bytes of one that is begun at the end."""
    text, num_used = utf_8_decode(data, "replace")
    begun = data[num_used:]
    if begun[:1] == b"\xed" and begun[1:] >= b"\xa0":  # half a surrogate: never a character, but Python waits on
        return text + begun.decode("utf-8", "replace"), b""
    return text, begun
