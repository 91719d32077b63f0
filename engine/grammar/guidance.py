"""llguidance: grammars for one tokenizer's tokens. The only module that knows it, imported with the first grammar."""

from collections.abc import Callable, Iterable, Iterator, Sequence as Run
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

from llguidance import LLMatcher, LLParserLimits, LLTokenizer

from engine.errors import GrammarRefused
from engine.grammar.bounds import MAX_REPEATS
from engine.grammar.grammars import end_ids_of
from engine.grammar.translate import Ends, is_plain, pieces_of, translated
from engine.request import Grammar
from engine.text import Tokenizer, Vocabulary

LIMITS = LLParserLimits(
    max_lexer_states=MAX_REPEATS, verbose_errors=False
)  # 100 MB at most for a grammar; usual are hundreds
MAX_REASON_CHARACTERS = 200
EMPTY = "NoExtensionBias"  # what the library says of a grammar that nothing matches


class Guidance:
    """Implements `Library` over one tokenizer."""

    def __init__(self, tokenizer: LLTokenizer, ends: Ends) -> None:
        self._tokenizer = tokenizer
        self._ends = ends

    def compile(self, grammar: Grammar) -> "GuidanceCompiled":
        """See `Library`."""
        with _refusing(grammar):
            pieces = list(pieces_of(grammar))
            hidden = [(name, piece) for name, piece in pieces if not is_plain(piece)]
        self._check(hidden)
        try:
            return self._whole(grammar)
        except GrammarRefused:
            self._check(pieces)  # one that is at fault is named
            raise

    def _check(self, pieces: Iterable[tuple[str, Grammar]]) -> None:
        """Compile pieces alone."""
        for name, piece in pieces:
            try:
                self.compile(piece)
            except GrammarRefused as refusal:
                raise refusal.within(name) from None

    def _whole(self, grammar: Grammar) -> "GuidanceCompiled":
        with _refusing(grammar):
            text = translated(grammar, self._ends)
        matcher = LLMatcher(self._tokenizer, text, log_level=0, limits=LIMITS)
        if fault := _fault(matcher):
            raise _refused(grammar, fault)
        return GuidanceCompiled(matcher)


@dataclass(frozen=True, slots=True)
class GuidanceCompiled:
    """Implements `Compiled`."""

    _matcher: LLMatcher

    def start(self) -> "GuidanceMatcher":
        """See `Compiled`."""
        return GuidanceMatcher(self._matcher.deep_copy())


class GuidanceMatcher:
    """Implements `Matcher`. In an error the library allows the end; here nothing is allowed then."""

    def __init__(self, matcher: LLMatcher) -> None:
        self._matcher = matcher

    @property
    def is_over(self) -> bool:
        """See `Matcher`."""
        return self._matcher.is_stopped() and not self._matcher.is_error()

    @property
    def failure(self) -> str:
        """See `Matcher`."""
        return _reason(self._matcher.get_error())

    def take(self, token: int) -> bool:
        """See `Matcher`."""
        return self._matcher.try_consume_tokens([token]) == 1

    def copy(self) -> "GuidanceMatcher":
        """See `Matcher`."""
        return GuidanceMatcher(self._matcher.deep_copy())

    def num_allowed(self, tokens: Run[int]) -> int:
        """See `Matcher`."""
        return 0 if self._matcher.is_stopped() else self._matcher.validate_tokens(list(tokens))

    def forced(self) -> tuple[int, ...]:
        """See `Matcher`."""
        return () if self._matcher.is_stopped() else tuple(self._matcher.compute_ff_tokens())

    def mask(self) -> bytes:
        """See `Matcher`."""
        mask = self._matcher.compute_bitmask()
        return b"" if self._matcher.is_error() else mask


# -- grammars -------------------------------------------------------------------------------------


def _fault(matcher: LLMatcher) -> str:
    """What is wrong with a grammar, if anything: some faults show in the first mask, and some behind a token."""
    if not matcher.is_error():
        mask = matcher.compute_bitmask()
        probe = matcher.deep_copy()
        if any(mask):
            probe.try_consume_tokens([int.from_bytes(mask, "little").bit_length() - 1])
        if probe.is_error():
            return probe.get_error()
    return matcher.get_error() if matcher.is_error() else ""


@contextmanager
def _refusing(grammar: Grammar) -> Iterator[None]:
    """Turn any failure of other people's code into a refusal; what it says is for the client."""
    try:
        yield
    except Exception as error:  # noqa: BLE001  # a library's, of whatever class
        raise _refused(grammar, str(error) or "it is nested too deep") from None


def _refused(grammar: Grammar, reason: str) -> GrammarRefused:
    return GrammarRefused(syntax=grammar.syntax.value, reason=_reason(reason))


def _reason(message: str) -> str:
    """An error's first line and its cause, short: the other lines show the client's own text."""
    lines = message.splitlines()
    causes = [line.removeprefix("error: ") for line in lines if line.startswith("error: ")]
    return " ".join([*lines[:1], *causes]).replace(EMPTY, "no text matches it")[:MAX_REASON_CHARACTERS]


# -- tokens ---------------------------------------------------------------------------------------


class Tokens:
    """What the library asks of a tokenizer: each token's bytes, which are special, and how text is tokenized."""

    is_tokenizer_wrapper = True
    bos_token_id: int | None = None

    def __init__(self, vocabulary: Vocabulary, end_ids: Iterable[int], encode: Callable[[str], Run[int]]) -> None:
        self._vocabulary = vocabulary
        self._encode = encode
        self.eos_token_id = min(end_ids)
        num_tokens = max(vocabulary.size, *end_ids) + 1
        self.tokens = [vocabulary.bytes_of(id, skip_special=False) for id in range(num_tokens)]
        self.special_token_ids = sorted(vocabulary.special_ids.union(end_ids))
        self._special = frozenset(self.special_token_ids)
        self._ids = {piece: id for id, piece in enumerate(self.tokens) if piece and id not in self._special}
        self._longest = max(map(len, self._ids), default=0)

    def __call__(self, text: str) -> list[int]:
        """The tokens of a text within an output: as the tokenizer has it, or else the longest first."""
        for lead in ("", "\n"):  # behind a line feed SentencePiece adds no space
            ids = list(self._encode(lead + text))[len(self._encode(lead)) if lead else 0 :]
            if self._special.isdisjoint(ids) and b"".join(self.tokens[id] for id in ids) == text.encode():
                return ids
        return list(self._longest_first(text.encode()))

    def _longest_first(self, data: bytes) -> Iterator[int]:
        """Where the text spells a control token, or the tokenizer changes it."""
        while data:
            piece = next((data[:n] for n in range(min(self._longest, len(data)), 0, -1) if data[:n] in self._ids), b"")
            if not piece:
                return  # no token spells this byte
            yield self._ids[piece]
            data = data[len(piece) :]


def guidance_for(tokenizer: Tokenizer) -> Guidance:
    """The library for a model's tokenizer; takes a moment."""
    encode = partial(tokenizer.encode, add_special_tokens=False)
    return guidance_of(tokenizer.vocabulary, end_ids_of(tokenizer), encode)


def _unknown(_text: str) -> Run[int]:
    return ()


def guidance_of(vocabulary: Vocabulary, ends: frozenset[int], encode: Callable[[str], Run[int]] = _unknown) -> Guidance:
    """The library for such tokens. Who can't `encode` has every text in the longest tokens that fit."""
    tokens = Tokens(vocabulary, ends, encode)
    spelled = {id: tokens.tokens[id].decode(errors="replace") for id in ends}
    return Guidance(LLTokenizer(tokens, eos_token=sorted(ends)), spelled)  # type: ignore[arg-type]  # any such object
