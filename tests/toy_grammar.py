"""Toy grammars over the digest model's tokens: what may come next is a hash of every output before it.

So a state that is not exactly that of the accepted outputs allows other tokens.
"""

from collections.abc import Iterable, Sequence as Run
from dataclasses import dataclass

from engine.errors import GrammarRefused
from engine.grammar.compiler import CompileLimits, Compiler
from engine.grammar.grammars import Grammars
from engine.request import Grammar, Request, Syntax
from tests.digest import EOS, VOCABULARY_SIZE

WIDE = Grammar(Syntax.LARK, "up to 9 choices")
NARROW = Grammar(Syntax.LARK, "up to 3 choices")  # often but one
DEAD_END = Grammar(Syntax.LARK, "up to 5 choices, and nothing behind the fourth")
WRONG = Grammar(Syntax.LARK, "wrong")
MOST = {WIDE: 9, NARROW: 3, DEAD_END: 5}
MAX_BYTES = 64


def allowed_behind(grammar: Grammar, outputs: Run[int]) -> frozenset[int]:
    """The tokens that a grammar allows behind some outputs; EOS is the end. Nothing but the end follows that."""
    if EOS in outputs:
        return frozenset({EOS})
    if grammar == DEAD_END and len(outputs) > 3:
        return frozenset()
    draw = hash((MOST[grammar], tuple(outputs)))  # of numbers alone, which have the same hash in every run
    return frozenset(hash((draw, number)) % VOCABULARY_SIZE for number in range(1 + draw % MOST[grammar]))


def choosable(request: Request, outputs: Run[int], banned: Iterable[int]) -> frozenset[int] | None:
    """The tokens that may be chosen behind some outputs of a request; None is all that are not banned."""
    if request.grammar is None:
        return None
    allowed = allowed_behind(request.grammar, outputs)
    endless = frozenset({EOS}) - request.stopping.eos_ids - request.stopping.token_ids
    return allowed - endless - frozenset(banned) or allowed


def is_complete(request: Request, outputs: Run[int]) -> bool:
    """Whether the request's grammar lets nothing but the end follow."""
    return request.grammar is not None and allowed_behind(request.grammar, outputs) == {EOS}


class ToyMatcher:
    """Implements `engine.grammar.matcher.Matcher`."""

    def __init__(self, grammar: Grammar, tokens: Iterable[int] = ()) -> None:
        self.grammar = grammar
        self.tokens = list(tokens)
        self.failure = ""

    @property
    def _allowed(self) -> frozenset[int]:
        return allowed_behind(self.grammar, self.tokens)

    @property
    def is_over(self) -> bool:
        return self._allowed == {EOS}

    def take(self, token: int) -> bool:
        if token not in self._allowed:
            return False
        self.tokens.append(token)
        return True

    def copy(self) -> "ToyMatcher":
        return ToyMatcher(self.grammar, self.tokens)

    def num_allowed(self, tokens: Run[int]) -> int:
        copy = self.copy()
        return next((count for count, token in enumerate(tokens) if not copy.take(token)), len(tokens))

    def forced(self) -> tuple[int, ...]:
        copy = self.copy()
        while len(copy._allowed) == 1 and not copy.is_over and copy.take(*copy._allowed):
            pass
        return tuple(copy.tokens[len(self.tokens) :])

    def mask(self) -> bytes:
        return mask_of(self._allowed)


def mask_of(tokens: Iterable[int]) -> bytes:
    """The mask of some tokens, as short as it can be."""
    bits = sum(1 << token for token in set(tokens))
    return bits.to_bytes(-(-bits.bit_length() // 8), "little")


@dataclass(frozen=True)
class ToyCompiled:
    """Implements `Compiled`."""

    grammar: Grammar

    def start(self) -> ToyMatcher:
        return ToyMatcher(self.grammar)


class ToyLibrary:
    """Implements `Library`; counts what it compiles."""

    def __init__(self) -> None:
        self.compiled: list[Grammar] = []

    def compile(self, grammar: Grammar) -> ToyCompiled:
        if grammar not in MOST:
            raise GrammarRefused(syntax=grammar.syntax.value, reason="it is wrong")
        self.compiled.append(grammar)
        return ToyCompiled(grammar)


def toy_grammars() -> Grammars:
    """Grammars for an engine over the digest model."""
    limits = CompileLimits(max_bytes=MAX_BYTES, max_seconds=10.0, max_kept=8)
    return Grammars(Compiler(ToyLibrary, limits), vocabulary_size=VOCABULARY_SIZE, end_ids=frozenset({EOS}))
