"""Commit: apply a step's result to the sequences, or drop it. One cut for ids, text, logprobs and usage."""

from array import array
from collections import deque
from dataclasses import dataclass, field

from engine.cache.tables import BlockTables
from engine.course import Event, Loss
from engine.draft.drafts import Drafts
from engine.errors import EngineError
from engine.grammar.grammars import Grammars
from engine.ledger import Accepted, Computed
from engine.preemption import preempt
from engine.request import Delta, End, FinishReason, OutputToken, TokenLogprob
from engine.roster import Roster
from engine.sequence import Sequence, State
from engine.stats import Stats
from engine.step import Advance, Chosen, Chunk, ChunkResult, Outcome, Plan, StepResult, Ticket, num_standing
from engine.text import Released, TextStream, Vocabulary


@dataclass(slots=True)
class _Output:
    """What a sequence has accepted and not yet handed to `publish`."""

    text: TextStream
    held: deque[tuple[int, TokenLogprob | None]] = field(default_factory=deque)
    num_released: int = 0
    scores_sent: bool = False


@dataclass(frozen=True, slots=True)
class _Stop:
    """What ended an output."""

    reason: FinishReason
    matched: str | int | None = None
    error: EngineError | None = None


class Commit:
    """Moves `computed` and `accepted`, decides where an output ends, indexes blocks and gives them back."""

    def __init__(
        self,
        *,
        tables: BlockTables,
        roster: Roster,
        stats: Stats,
        vocabulary: Vocabulary,
        drafts: Drafts,
        grammars: Grammars,
    ) -> None:
        self._tables = tables
        self._roster = roster
        self._stats = stats
        self._vocabulary = vocabulary
        self._drafts = drafts
        self._grammars = grammars
        self._outputs: dict[str, _Output] = {}

    def commit(self, plan: Plan, result: StepResult, *, incarnation: int, now: float) -> Outcome:
        """Apply every chunk whose ticket still fits; the others change nothing."""
        advances = []
        for chunk, chunk_result in zip(plan.chunks, result.chunks, strict=True):
            sequence = self._roster.get(chunk.ticket.sequence)
            if sequence is None or not _fits(chunk_result.ticket, chunk, sequence, incarnation):
                self._drop(sequence)
                continue
            advances.append(self._apply(sequence, chunk, chunk_result, now))
        return Outcome(plan.number, tuple(advances))

    def _drop(self, sequence: Sequence | None) -> None:
        """Let nothing come of a result. What its chunk wrote is unknown, so the sequence starts again."""
        if sequence is None or not sequence.ledger.in_flight:
            self._stats.rollbacks["stale"] += 1
            return
        preempt(sequence, Loss.STALE, roster=self._roster, tables=self._tables, stats=self._stats)

    def _apply(self, sequence: Sequence, chunk: Chunk, result: ChunkResult, now: float) -> Advance:
        output, fed_upto = self._output_of(sequence), _fed_upto(chunk, sequence)
        chunk = chunk.with_guesses(result.guesses)
        sequence.prompt_logprobs.extend(result.scores)
        if chunk.pool is not None:
            sequence.pooled, sequence.pooled_upto = result.pooled, chunk.stop
        accepted, stop = self._accept(sequence, output, _standing(chunk, result))
        computed = chunk.owed_stop + max(0, len(accepted) - 1)
        sequence.ledger.commit(Computed(computed), Accepted(sequence.ledger.accepted + len(accepted)))
        sequence.ledger.draft(self._tables.settled(sequence, fed_upto))
        if sequence.ledger.computed >= sequence.failed_upto:
            sequence.failures = 0
        self._tables.index(sequence)
        self._observe(sequence, len(accepted), now)
        if chunk.num_drafts:
            self._note_drafts(sequence, chunk, num_kept=num_standing(chunk.drafts, accepted))
        if sequence.request.chooses_nothing and sequence.num_owed == 0:
            stop = _Stop(FinishReason.LENGTH)
        end = None if stop is None else End(stop.reason, sequence.usage, stop.matched, stop.error)
        return self._advance(sequence, output, end, accepted, chunk.drafts)

    def _accept(
        self, sequence: Sequence, output: _Output, chosen: tuple[Chosen, ...]
    ) -> tuple[tuple[int, ...], _Stop | None]:
        """Take tokens up to the one that ends the output, if one does: what was accepted, and the end."""
        accepted: list[int] = []
        for token, logprob in chosen:
            if not self._grammars.take(sequence, token):
                return tuple(accepted), _Stop(FinishReason.ERROR, error=self._grammars.failure(sequence))
            accepted.append(token)
            sequence.tokens.append(token)
            output.held.append((token, logprob))
            stop = self._stop_at(sequence, output.text, token)
            if stop is not None:
                return tuple(accepted), stop
        return tuple(accepted), None

    def _stop_at(self, sequence: Sequence, text: TextStream, token: int) -> _Stop | None:
        """What the newest token ends. An output that its grammar completes has not run out of room."""
        stop = _feed(sequence, text, token)
        if (stop is None or stop.reason is FinishReason.LENGTH) and self._grammars.is_over(sequence):
            return _Stop(FinishReason.STOP)
        return stop

    def _note_drafts(self, sequence: Sequence, chunk: Chunk, *, num_kept: int) -> None:
        """What was kept decides how much is drafted next."""
        num_fallen = chunk.num_drafts - num_kept
        self._stats.count_drafts(chunk.source, chunk.num_drafts, num_kept)
        sequence.drafts_kept[chunk.source] += num_kept
        sequence.drafts_fallen[chunk.source] += num_fallen
        self._drafts.observe(sequence, chunk.source, num_drafts=chunk.num_drafts, num_kept=num_kept)
        if num_fallen:
            self._stats.rollbacks["rejected"] += 1

    def end(self, sequence: Sequence, reason: FinishReason, error: EngineError | None = None) -> Advance:
        """End a sequence from outside a step: what it has accepted is final, its cache goes back."""
        output = self._output_of(sequence)
        return self._advance(sequence, output, End(reason, sequence.usage, error=error), ())

    def _advance(
        self,
        sequence: Sequence,
        output: _Output,
        end: End | None,
        accepted: tuple[int, ...],
        drafts: tuple[int, ...] = (),
    ) -> Advance:
        delta = _delta(sequence, output, end)
        if end is not None:
            self._tables.release(sequence)
            self._roster.move(sequence, State.FINISHED, Event.ENDED, reason=end.reason.value, error=end.error)
            self._drafts.forget(sequence)
            self._grammars.forget(sequence)
            del self._outputs[sequence.id]
        publish_upto = sequence.num_prompt + output.num_released
        return Advance(sequence.id, sequence.ledger.marks, publish_upto, delta, accepted, drafts)

    def _output_of(self, sequence: Sequence) -> _Output:
        if sequence.id not in self._outputs:
            request = sequence.request
            text = TextStream(
                self._vocabulary,
                request.prompt,
                stop=request.stopping.strings,
                include_stop=request.stopping.include_stop,
                skip_special=request.skip_special_tokens,
                shown_special=request.shown_special_ids,
            )
            self._outputs[sequence.id] = _Output(text)
        return self._outputs[sequence.id]

    def _observe(self, sequence: Sequence, num_accepted: int, now: float) -> None:
        if not num_accepted:
            return
        if sequence.first_output_at is None or sequence.last_output_at is None:
            sequence.first_output_at = now
            self._stats.time_to_first_token.observe(now - sequence.arrived_at)
        else:
            self._stats.inter_token_latency.observe((now - sequence.last_output_at) / num_accepted, num_accepted)
        sequence.last_output_at = now


def _fits(ticket: Ticket, chunk: Chunk, sequence: Sequence, incarnation: int) -> bool:
    """Whether a result is this chunk's own, and the sequence still stands where the chunk began."""
    now = (sequence.epoch, incarnation, sequence.ledger.computed)
    return ticket == chunk.ticket and (ticket.epoch, ticket.incarnation, ticket.base) == now


def _fed_upto(chunk: Chunk, sequence: Sequence) -> int:
    """Where the draft model has come to: behind all of its guesses but the last, which it has not computed."""
    return sequence.ledger.drafted if chunk.feed is None else chunk.feed.stop + max(0, chunk.num_guesses - 1)


def _standing(chunk: Chunk, result: ChunkResult) -> tuple[Chosen, ...]:
    """The tokens that are final: those chosen in place of drafts that stand, and the one behind the last of these."""
    return result.chosen[: num_standing(chunk.drafts, [each.token for each in result.chosen]) + 1]


def _feed(sequence: Sequence, text: TextStream, token: int) -> _Stop | None:
    stopping = sequence.request.stopping
    if token in stopping.eos_ids or token in stopping.token_ids:
        text.push(token, silent=not stopping.include_stop, matching=False)
        return _Stop(FinishReason.STOP, None if token in stopping.eos_ids else token)
    matched = text.push(token, matching=sequence.num_outputs >= stopping.min_tokens)
    if matched is not None:
        return _Stop(FinishReason.STOP, matched)
    if len(sequence.tokens) >= sequence.max_length:
        return _Stop(FinishReason.LENGTH)
    return None


def _delta(sequence: Sequence, output: _Output, end: End | None) -> Delta | None:
    released = output.text.finish() if end else output.text.release()
    tokens = _tokens(output, released)
    if not (released.text or tokens or end):
        return None
    return Delta(sequence.choice, released.text, tokens, _scores(sequence, output), end, _embedding(sequence, end))


def _embedding(sequence: Sequence, end: End | None) -> tuple[float, ...] | None:
    """The mean of the hidden states, if all of them are there."""
    if end is None or sequence.request.pooling is None or sequence.pooled_upto < sequence.num_prompt:
        return None
    return tuple(value / sequence.num_pooled for value in array("d", sequence.pooled))


def _scores(sequence: Sequence, output: _Output) -> tuple[TokenLogprob | None, ...] | None:
    """The prompt's log-probabilities, once, when all of them are there."""
    if sequence.request.prompt_logprobs is None or output.scores_sent:
        return None
    if len(sequence.prompt_logprobs) < sequence.num_prompt:
        return None
    output.scores_sent = True
    return tuple(sequence.prompt_logprobs)


def _tokens(output: _Output, released: Released) -> tuple[OutputToken, ...]:
    """The held tokens whose text is now out, each with its span and log-probability."""
    tokens = []
    for span in released.spans:
        token, logprob = output.held.popleft()
        tokens.append(OutputToken(token, span.offset, span.in_text, logprob))
    output.num_released += len(tokens)
    return tuple(tokens)
