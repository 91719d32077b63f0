"""Grammars: the matcher of every unfinished sequence that has one, at its accepted outputs (law 17)."""

from collections.abc import Iterable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass

from engine.errors import GrammarFailed, GrammarRefused
from engine.grammar.compiler import Compiler
from engine.grammar.masks import MaskWork, make_masks
from engine.grammar.matcher import Compiled, Matcher
from engine.request import Grammar, Request
from engine.sequence import Sequence
from engine.step import Chunk, Masks, MaskSource, Plan
from engine.text import Tokenizer


@dataclass(slots=True)
class _Record:
    matcher: Matcher
    endless: tuple[int, ...]
    num_taken: int = 0


class Grammars:
    """Follows outputs as commit accepts them, and says what may come next. Guesses move copies, never a matcher.

    `end_ids` are the tokens with which a matcher's output may end. Without a compiler every grammar is refused.
    """

    def __init__(self, compiler: Compiler | None, *, vocabulary_size: int, end_ids: frozenset[int]) -> None:
        self._compiler = compiler
        self._vocabulary_size = vocabulary_size
        self._end_ids = end_ids
        self._records: dict[str, _Record] = {}
        self._thread = ThreadPoolExecutor(1, "grammar-masks")  # started by its first work
        self._making: Future[Masks] | None = None

    # -- the door -----------------------------------------------------------------------------

    async def prepare(self, grammar: Grammar) -> bool:
        """Compile a grammar off the event loop, so that `compiled` finds it done. Raises GrammarRefused.

        False: others had it compiled.
        """
        return await self._its_compiler(grammar).prepare(grammar)

    def compiled(self, request: Request) -> Compiled | None:
        """What the request's sequences start from; compiled here unless it was before. Raises GrammarRefused."""
        grammar = request.grammar
        return None if grammar is None else self._its_compiler(grammar).get(grammar)

    def _its_compiler(self, grammar: Grammar) -> Compiler:
        if self._compiler is None:
            raise GrammarRefused(syntax=grammar.syntax.value, reason="this engine has no grammars")
        return self._compiler

    def start(self, sequence: Sequence, compiled: Compiled) -> None:
        """A sequence has come into the queue."""
        stopping = sequence.request.stopping
        endless = self._end_ids - stopping.eos_ids - stopping.token_ids
        self._records[sequence.id] = _Record(compiled.start(), tuple(sorted(endless)))

    def forget(self, sequence: Sequence) -> None:
        """The sequence has ended."""
        self._records.pop(sequence.id, None)

    # -- what is accepted ---------------------------------------------------------------------

    def take(self, sequence: Sequence, token: int) -> bool:
        """Move on by a token that is about to be accepted; False where the grammar does not allow it."""
        record = self._record_of(sequence)
        if record is None:
            return True
        taken = record.matcher.take(token)
        record.num_taken += taken
        return taken

    def is_over(self, sequence: Sequence) -> bool:
        """Whether the outputs are complete and nothing can follow them."""
        record = self._record_of(sequence)
        return record is not None and record.matcher.is_over

    def failure(self, sequence: Sequence) -> GrammarFailed:
        """Why nothing more could be taken."""
        record, grammar = self._record_of(sequence), sequence.request.grammar
        assert record is not None, "who has no grammar takes anything"
        assert grammar is not None, "who has no grammar takes anything"
        return GrammarFailed(name=grammar.name, reason=record.matcher.failure or "no token of the vocabulary fits")

    # -- what may come next -------------------------------------------------------------------

    def allowed(self, sequence: Sequence, tokens: tuple[int, ...]) -> tuple[int, ...]:
        """The leading `tokens` that may come next."""
        record = self._record_of(sequence)
        return tokens if record is None else tokens[: record.matcher.num_allowed(tokens)]

    def forced(self, sequence: Sequence) -> tuple[int, ...]:
        """The tokens that come next because nothing else may."""
        record = self._record_of(sequence)
        return () if record is None else record.matcher.forced()

    def masks(self, plan: Plan) -> MaskSource | None:
        """Begin to make the masks of a step on a thread of its own; what is returned waits for them."""
        works = [self._work_of(chunk) for chunk in plan.chunks] if self._records else []
        if not any(works):
            return None
        self._making = self._thread.submit(make_masks, works, self._vocabulary_size)
        return self._making.result

    def _work_of(self, chunk: Chunk) -> MaskWork | None:
        record = self._records.get(chunk.ticket.sequence)
        if record is None or chunk.choose is None:
            return None
        return MaskWork(record.matcher, chunk.choose, chunk.drafts, record.endless)

    def _record_of(self, sequence: Sequence) -> _Record | None:
        """Its matcher is free: a step that failed may have left masks behind that are still made from it."""
        if self._making is not None:
            wait((self._making,))
            self._making = None
        return self._records.get(sequence.id)

    def check(self, sequences: Iterable[Sequence]) -> None:
        """Assert that each unfinished sequence with a grammar has a matcher, which has taken its outputs."""
        outputs = {sequence.id: sequence.num_outputs for sequence in sequences if sequence.request.grammar is not None}
        taken = {id: record.num_taken for id, record in self._records.items()}
        assert taken == outputs, "the grammar's state is that of the accepted outputs"


def end_ids_of(tokenizer: Tokenizer) -> frozenset[int]:
    """The tokens that end an output: of a model that has none, an id that it has not."""
    return tokenizer.eos_ids or frozenset({tokenizer.vocabulary.size})


def no_grammars(vocabulary_size: int) -> Grammars:
    """For an engine that has none."""
    return Grammars(None, vocabulary_size=vocabulary_size, end_ids=frozenset())
