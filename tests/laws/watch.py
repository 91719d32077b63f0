"""What must hold around every step of an engine, seen from outside its stages."""

from collections.abc import Iterable

from engine.cache.tables import BlockTables
from engine.engine import Engine
from engine.errors import (
    ContextTooLong,
    Draining,
    EmptyPrompt,
    GrammarRefused,
    QueueFull,
    RequestRefused,
    UnknownToken,
)
from engine.request import Request
from engine.sequence import Sequence, State
from engine.step import Chunk, Plan, StateUse
from tests.digest import VOCABULARY_SIZE, DigestRunner
from tests.draft_model import CONTEXT, DigestDraftModel, rows_of
from tests.laws.held_runner import HeldRunner
from tests.laws.shape import Shape
from tests.toy_grammar import WRONG, ToyMatcher


class Watch:
    """Asserts laws; changes nothing."""

    def __init__(self, engine: Engine, tables: BlockTables, runner: HeldRunner, shape: Shape) -> None:
        self._engine = engine
        self._tables = tables
        self._runner = runner
        self._shape = shape

    @property
    def unfinished(self) -> list[Sequence]:
        """All that wait, run or are paused."""
        return list(self._engine._roster)

    def is_unfinished(self, sequence: Sequence) -> bool:
        """Whether it is still on the roster."""
        return self._engine._roster.get(sequence.id) is sequence

    def sequence(self, sequence_id: str) -> Sequence:
        """An unfinished sequence."""
        sequence = self._engine._roster.get(sequence_id)
        assert sequence is not None
        return sequence

    # -- the door -----------------------------------------------------------------------------

    def admission(self, request: Request) -> None:
        """A request that was taken can be run."""
        assert self._engine.accepting
        assert len(request.prompt) + (not request.chooses_nothing) <= self._shape.context_length

    def refusal(self, request: Request, refusal: RequestRefused) -> None:
        """A refusal has its reason."""
        match refusal:
            case EmptyPrompt():
                assert not request.prompt
            case UnknownToken():
                assert any(token >= VOCABULARY_SIZE for token in (*request.prompt, *request.stopping.token_ids))
            case ContextTooLong():
                assert len(request.prompt) + (not request.chooses_nothing) > self._shape.context_length
            case QueueFull():
                waiting = {sequence.request.id for sequence in self._engine._roster.waiting}
                assert len(waiting) >= self._shape.max_waiting
            case GrammarRefused():
                assert request.grammar == WRONG
            case Draining():
                assert not self._engine.accepting
            case _:
                raise refusal

    # -- a step -------------------------------------------------------------------------------

    def issue(self, plan: Plan) -> None:
        """A plan keeps the limits, serves who is first, and writes only what nobody else reads."""
        shape = self._shape
        assert 0 < plan.num_positions <= shape.max_step_positions
        assert sum(chunk.num_logit_rows for chunk in plan.chunks) <= shape.max_logit_rows
        assert len(plan.chunks) <= shape.max_sequences
        self._check_first_is_served(plan)
        for chunk in plan.chunks:
            self._check_chunk(chunk)
        places = [place for chunk in plan.chunks for place in self._written(chunk)]
        assert len(set(places)) == len(places), "two chunks write one block"
        self._check_feeds(plan)

    def _check_first_is_served(self, plan: Plan) -> None:
        """The oldest running sequence is in every step, but for those that run alone after a failure."""
        planned = [self.sequence(chunk.ticket.sequence) for chunk in plan.chunks]
        assert self._engine._roster.running[0] in planned or (len(planned) == 1 and planned[0].failures)

    def _check_chunk(self, chunk: Chunk) -> None:
        sequence = self.sequence(chunk.ticket.sequence)
        assert sequence.state is State.RUNNING
        assert not sequence.aborted, "nothing is computed for a client that has left"
        assert not sequence.parked, "nor for one that may come back"
        assert not sequence.stalled, "nothing is computed for a client that does not read"
        assert chunk.tokens[: chunk.owed_stop - chunk.start] == tuple(sequence.tokens[chunk.start : chunk.owed_stop])
        if chunk.num_drafts:
            self._check_drafts(chunk, sequence)
        assert chunk.ticket.tables == self._tables.tables_of(sequence)
        assert sequence.ledger.planned == chunk.stop
        for index, table in zip(self._tables.indexes, sequence.held.tables, strict=True):
            for block in table.blocks_from(chunk.start // self._shape.block_size):
                assert self._tables.pool.owners(block) == 1, "a written block has one owner"
                assert not index.knows(block), "an indexed block is never written"
        if chunk.ticket.states is not None:
            self._check_states(chunk, chunk.ticket.states)

    def _check_drafts(self, chunk: Chunk, sequence: Sequence) -> None:
        """Drafts stand behind all that is accepted, and the token behind them has a place as well."""
        assert chunk.choose is not None
        assert chunk.owed_stop == len(sequence.tokens)
        assert chunk.num_drafts <= self._shape.max_draft_tokens
        assert chunk.stop < sequence.max_length
        assert not sequence.failures, "who failed runs without drafts"

    def _check_feeds(self, plan: Plan) -> None:
        """The draft model computes accepted tokens, right behind what it has, in places that nobody relies on."""
        places: list[int] = []
        for chunk in plan.chunks:
            if chunk.feed is None:
                assert not chunk.num_guesses, "a guess is made of all tokens before"
                continue
            sequence, size = self.sequence(chunk.ticket.sequence), self._shape.block_size
            feed, model, tables = chunk.feed, self._runner.draft_model, chunk.ticket.tables
            assert model is not None
            assert model.read(tables, feed.start) == rows_of(sequence.tokens[: feed.start]), "it has what is below"
            assert feed.tokens == tuple(sequence.tokens[feed.start : feed.stop])
            assert not chunk.num_guesses or feed.stop == len(sequence.tokens), "a guess is made of all tokens before"
            stop = feed.stop + max(0, chunk.num_guesses - 1)
            assert stop <= chunk.stop
            assert stop <= CONTEXT, "it computes no further than its context"
            places += tables[self._shape.layout.table_beside].units[feed.start // size : -(-stop // size)]
        assert len(set(places)) == len(places), "two chunks have the draft model write one block"
        assert self._tables._drafted.isdisjoint(places), "what the draft model has is never written"
        assert sum(len(chunk.feed.tokens) for chunk in plan.chunks if chunk.feed) <= self._most_fed

    @property
    def _most_fed(self) -> int:
        return max(self._shape.max_step_positions, self._shape.block_size)

    def _check_states(self, chunk: Chunk, use: StateUse) -> None:
        """A recurrent state that a step reads stands at exactly `computed`, and nobody else has what it writes."""
        states = self._tables.states
        before = () if use.source is None else self._runner.states[use.source]
        assert before == tuple(self.sequence(chunk.ticket.sequence).tokens[: chunk.start])
        for slot in (use.target, *(slot for _, slot in use.checkpoints)):
            assert states.pool.owners(slot) == 1, "a written slot has one owner"
            assert not states.index.knows(slot), "a checkpoint that is known is never written"
        assert all(chunk.start < position <= chunk.stop for position, _ in use.checkpoints)

    def _written(self, chunk: Chunk) -> Iterable[tuple[str, int]]:
        size, use = self._shape.block_size, chunk.ticket.states
        for table in chunk.ticket.tables:
            yield from (("unit", unit) for unit in table.units[chunk.start // size - table.first :])
        if use is not None:
            yield from (("slot", slot) for slot in (use.target, *(slot for _, slot in use.checkpoints)))

    # -- any moment ---------------------------------------------------------------------------

    def check(self) -> None:
        """Every law that holds at any moment."""
        roster = self._engine._roster
        roster.check()
        self._tables.check(roster)
        for sequence in roster:
            sequence.check()
        self._check_grammars()
        self._check_flight()
        self._check_snapshot()
        check_indexed_content(self._tables, self._runner)
        if self._runner.draft_model is not None:
            self._check_drafted(self._runner.draft_model)

    def _check_drafted(self, model: DigestDraftModel) -> None:
        """The draft model's rows are those of the accepted tokens, and in a block that is known of its key's tokens."""
        for sequence in filter(lambda each: each.held.tables, self._engine._roster):
            upto = self._tables.drafted_upto(sequence)
            assert upto >= sequence.ledger.drafted
            assert model.read(self._tables.tables_of(sequence), upto) == rows_of(sequence.tokens[:upto])
        layout = self._shape.layout
        for block, key in self._tables.indexes[layout.group_beside]._key_of.items():
            if block in self._tables._drafted:
                unit = self._tables.pool.units(block)[0]
                tokens = tuple(slot[0] for slot in model.content(unit))
                assert tokens == self._tables.indexes[layout.group_beside]._entries[key].tokens

    def _check_grammars(self) -> None:
        """A grammar's state is that of exactly the accepted outputs, whatever is in flight."""
        self._engine._grammars.check(self._engine._roster)
        for id, record in self._engine._grammars._records.items():
            sequence = self.sequence(id)
            assert isinstance(record.matcher, ToyMatcher)
            assert record.matcher.tokens == sequence.tokens[sequence.num_prompt :]

    def _check_flight(self) -> None:
        if self._runner.flight is None:
            self._check_rest()
            return
        for chunk in self._runner.flight.plan.chunks:
            assert chunk.ticket.tables == self._tables.tables_of(self.sequence(chunk.ticket.sequence)), "nothing moves"

    def _check_rest(self) -> None:
        """Nothing is in flight only if there is no work: every request waits for its reader, or is parked."""
        self._engine.check()
        for sequence in self._engine._roster:
            if sequence.state is not State.PARKED:
                assert sequence.state is State.PAUSED, f"{sequence.id} could run"
                assert sequence.stalled
            assert sequence.parked is (sequence.state is State.PARKED)
            assert not sequence.aborted

    def _check_snapshot(self) -> None:
        snapshot = self._engine.snapshot()
        blocks = snapshot.blocks
        assert blocks.free + blocks.allocated + blocks.shared + blocks.cached == self._shape.sizes.num_units
        num_sequences = snapshot.running + snapshot.waiting + snapshot.paused + snapshot.parked
        assert num_sequences == len(snapshot.sequences)
        positions = snapshot.positions
        in_flight = sum(view.marks.planned - view.marks.computed for view in snapshot.sequences)
        lost = self._runner.num_lost
        assert positions.planned == positions.computed + positions.rejected + in_flight + lost
        assert positions.computed + positions.rejected == self._runner.num_computed
        assert positions.published <= positions.accepted

    # -- the end ------------------------------------------------------------------------------

    def check_end(self, sequences: Iterable[Sequence]) -> None:
        """After the last request nothing is owned, and the sums are those of the ledgers."""
        assert not self.unfinished
        self._tables.check([])
        snapshot = self._engine.snapshot()
        assert snapshot.blocks.allocated == snapshot.blocks.shared == 0
        assert snapshot.tail_positions == 0
        assert snapshot.slots.allocated == snapshot.slots.shared == 0
        assert snapshot.positions.accepted == sum(sequence.num_outputs for sequence in sequences)
        assert not self._engine._commit._outputs, "no text is kept"
        assert not self._engine._publisher._outlets, "no stream is kept"
        assert not self._engine._grammars._records, "no matcher is kept"


def check_indexed_content(tables: BlockTables, runner: DigestRunner) -> None:
    """Every indexed block, and every checkpoint, holds the state of exactly its tokens."""
    for index in tables.indexes:
        for block, key in index._key_of.items():
            for unit in tables.pool.units(block):
                tokens = tuple(slot[0] for slot in runner.content(unit))
                assert tokens == index._entries[key].tokens, f"block {block} holds other tokens than its key says"
    for slot, key in tables.states.index._key_of.items():
        tokens = runner.states[slot]
        assert len(tokens) % tables.block_size == 0, f"checkpoint {slot} is not at a block's border"
        last = tokens[-tables.block_size :]
        assert last == tables.states.index._entries[key].tokens, f"checkpoint {slot} has other tokens than its key says"
