"""Engine: the loop of five calls (admit, plan, execute, commit, publish). Owns the parts, does none of their work."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager

from config.settings import EngineSettings
from engine.admission import Admission
from engine.cache.tables import BlockTables
from engine.commit import Commit
from engine.course import Course, Loss, Moment
from engine.draft.drafts import Drafts, MakeSource
from engine.errors import Draining, EngineStopped, RequestRefused, StepFailed
from engine.grammar.grammars import Grammars, no_grammars
from engine.holding import slot_view, unit_view
from engine.look import Look, UnitView
from engine.observers import Observers
from engine.pace import Pace, load_of
from engine.plan import Limits, plan_step, reserve
from engine.preemption import preempt
from engine.publish import Publisher
from engine.request import FinishReason, Grammar, Request
from engine.roster import Roster
from engine.stats import ModelInfo, Snapshot, Stats, StepRecord
from engine.step import Advance, Plan, Runner, StepResult
from engine.stream import DeltaStream
from engine.text import Vocabulary
from engine.view import Issued, look_of, snapshot_of

MAX_FAILURES = 2  # a request whose step failed this often, the last time alone, is ended

log = logging.getLogger(__name__)


class Engine:
    """Runs requests over one model. `run` is the only task that moves anything but flags and the queue."""

    def __init__(
        self,
        *,
        runner: Runner,
        tables: BlockTables,
        info: ModelInfo,
        vocabulary: Vocabulary,
        settings: EngineSettings,
        sources: Mapping[str, MakeSource] | None = None,
        grammars: Grammars | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.info = info
        self.vocabulary = vocabulary
        self._runner = runner
        self._tables = tables
        self._settings = settings
        self._clock = clock
        self._stats = Stats()
        self._observers = Observers()
        self._roster = Roster(clock=clock, hear=self._observers.hear)
        self._admission = Admission(
            tables=tables,
            roster=self._roster,
            stats=self._stats,
            context_length=info.context_length,
            vocabulary_size=info.vocabulary_size,
            max_sequences=settings.max_sequences,
            max_waiting=settings.max_waiting,
            reserved_outputs=settings.reserved_outputs,
        )
        self._limits = Limits(settings.max_step_positions, settings.max_logit_rows)
        self._pace = Pace(settings.max_step_seconds, row_tile=info.row_tile)
        self._grammars = grammars or no_grammars(info.vocabulary_size)
        self._drafts = Drafts(
            sources or {},
            max_tokens=settings.max_draft_tokens,
            grammars=self._grammars,
            draft_context=info.draft_model.context_length if info.draft_model else None,
        )
        self._commit = Commit(
            tables=tables,
            roster=self._roster,
            stats=self._stats,
            vocabulary=vocabulary,
            drafts=self._drafts,
            grammars=self._grammars,
        )
        self._publisher = Publisher()
        self._unpublished: list[Advance] = []
        self._issued: Issued | None = None  # the last committed step, until published
        self._wake = asyncio.Event()
        self._quiet = asyncio.Event()
        self._quiet.set()
        self._draining = False
        self._stopping = False
        self._num_failed_steps = 0
        self._step_started_at: float | None = None

    # -- what the front end calls -------------------------------------------------------------

    def examine(self, request: Request) -> None:
        """Raise the RequestRefused of a request that can never run; queue nothing."""
        self._admission.examine(request)

    def open(self, request: Request) -> DeltaStream:
        """Queue a request and return its stream, or raise the RequestRefused that says why not."""
        if not self.accepting:
            self._stats.refusals[Draining.__name__] += 1
            raise Draining
        with self._counting_refusals():
            grammar = self._grammars.compiled(request)
        sequences = self._admission.offer(request, now=self._clock())
        if grammar is not None:
            for sequence in sequences:
                self._grammars.start(sequence, grammar)
        stream = DeltaStream(
            sequences,
            max_deltas=self._settings.max_buffered_deltas,
            slow_reader_seconds=self._settings.slow_reader_seconds,
            wake=self._wake.set,
            on_disconnect=self._count_disconnect,
        )
        self._publisher.connect(sequences, stream)
        self._quiet.clear()
        self._wake.set()
        return stream

    async def prepare(self, grammar: Grammar) -> None:
        """Make a grammar ready while the loop goes on: `open` would compile it there. Raises RequestRefused."""
        began = self._clock()
        try:
            with self._counting_refusals():
                outcome = "compiled" if await self._grammars.prepare(grammar) else "cached"
        except RequestRefused:
            self._stats.count_grammar("refused", self._clock() - began)
            raise
        self._stats.count_grammar(outcome, self._clock() - began)

    @contextmanager
    def _counting_refusals(self) -> Iterator[None]:
        try:
            yield
        except RequestRefused as refusal:
            self._stats.refusals[type(refusal).__name__] += 1
            raise

    @property
    def accepting(self) -> bool:
        """Whether new requests are taken."""
        return not (self._draining or self._stopping)

    @property
    def stalled(self) -> bool:
        """Whether the step in flight has taken longer than `stall_seconds`."""
        started = self._step_started_at
        return started is not None and self._clock() - started > self._settings.stall_seconds

    def snapshot(self) -> Snapshot:
        """Everything that can be seen, now; waits for nothing."""
        return snapshot_of(self._roster, self._tables, self._stats, self._pace, now=self._clock())

    def look(self) -> Look:
        """The same for who looks again and again."""
        return look_of(self._roster, self._tables, self._stats, self._pace, now=self._clock())

    def unit(self, unit: int) -> UnitView | None:
        """What a unit of the pool holds now; None where it is free."""
        return unit_view(unit, self._roster, self._tables)

    def slot(self, slot: int) -> UnitView | None:
        """What a slot of recurrent states holds now; None where it is free."""
        return slot_view(slot, self._roster, self._tables)

    def courses(self) -> dict[str, Course]:
        """What has befallen each unfinished sequence so far, by its id; the first to arrive comes first."""
        return {sequence.id: sequence.course for sequence in self._roster}

    def observe(
        self,
        note: Callable[[StepRecord], None],
        *,
        with_tables: bool = True,
        hear: Callable[[str, Moment], None] | None = None,
    ) -> Callable[[], None]:
        """Call `note` with a record of every step once it is published, until what is returned is called.

        With block tables, unless nobody wants them: they are made for each step. What befalls a sequence between
        steps is told to `hear` at once, with the sequence's id.
        """
        return self._observers.add(note, with_tables=with_tables, hear=hear)

    def drain(self) -> None:
        """Finish what there is and take no more; what is parked ends, since nobody waits for it."""
        self._draining = True
        self._wake.set()

    async def drained(self) -> None:
        """Wait until no request is unfinished."""
        await self._quiet.wait()

    def stop(self) -> None:
        """End every request with EngineStopped; `run` returns after the step in flight."""
        self._stopping = True
        self._wake.set()

    # -- the loop -----------------------------------------------------------------------------

    async def run(self) -> None:
        """Turn until stopped. Raises if the engine itself is at fault; every stream has ended by then."""
        try:
            while not self._stopping:
                self._wake.clear()
                self._admit()
                plan = self._plan()
                if plan is None:
                    self._publish()
                    await self._wake.wait()
                    continue
                began = self._clock()
                execution = self._runner.execute(plan, self._grammars.masks(plan))
                self._publish()  # the previous step's outcome, while this one is computed
                await self._finish(plan, execution, began)
                if self._settings.check_laws:
                    self.check()
        finally:
            self._end_all()

    def _admit(self) -> None:
        for sequence in self._admission.aborted():
            reason = FinishReason.ERROR if sequence.abort_error else FinishReason.ABORT
            self._unpublished.append(self._commit.end(sequence, reason, sequence.abort_error))
        self._admission.settle_parks()
        if self._draining:
            self._end_parked()
        self._admission.settle_pauses()
        self._admission.admit(now=self._clock())

    def _end_parked(self) -> None:
        """Nobody is there to come back to: whoever does finds the end."""
        for sequence in list(self._roster.parked):
            self._unpublished.append(self._commit.end(sequence, FinishReason.ERROR, EngineStopped()))

    def _plan(self) -> Plan | None:
        began = self._clock()
        decision = plan_step(self._roster, self._tables, self._limits, self._pace, self._drafts)
        if not decision.grants:
            assert not self._roster.running, "a running sequence always gets positions"
            return None
        self._stats.steps += 1
        plan = reserve(
            decision,
            number=self._stats.steps,
            incarnation=self._runner.incarnation,
            roster=self._roster,
            tables=self._tables,
            stats=self._stats,
        )
        self._stats.step_positions.observe(plan.num_positions)
        self._stats.observe_stage("plan", self._clock() - began)
        return plan

    async def _finish(self, plan: Plan, execution: Awaitable[StepResult], began: float) -> None:
        """Await the step and commit it; a step that raises is taken back."""
        blocks = self._observers.blocks_of(plan, self._roster, self._tables)
        self._step_started_at = began
        try:
            result = await execution
        except Exception as error:
            log.exception("step_failed", extra={"fields": {"step": plan.number, "sequences": len(plan.chunks)}})
            self._take_back(plan, error)
            return
        finally:
            self._step_started_at = None
        ended = self._clock()
        outcome = self._commit.commit(plan, result, incarnation=self._runner.incarnation, now=ended)
        self._pace.observe(load_of(plan.chunks), ended - began, result.guessing_seconds)
        self._num_failed_steps = 0
        self._unpublished.extend(outcome.advances)
        self._issued = Issued(plan, ended, ended - began, blocks)
        for stage, seconds in (("execute", ended - began), ("commit", self._clock() - ended), *result.seconds):
            self._stats.observe_stage(stage, seconds)

    def _take_back(self, plan: Plan, error: Exception) -> None:
        """Undo a step that raised. Its sequences run again, alone; one that fails alone as well is ended."""
        self._num_failed_steps += 1
        if self._num_failed_steps > self._settings.max_sequences + 1:
            raise error
        for chunk in plan.chunks:
            sequence = self._roster.get(chunk.ticket.sequence)
            assert sequence is not None, "nothing ends while a step is in flight"
            sequence.failures += 1
            sequence.failed_upto = chunk.stop
            preempt(sequence, Loss.STEP_FAILED, roster=self._roster, tables=self._tables, stats=self._stats)
            if sequence.failures >= MAX_FAILURES and len(plan.chunks) == 1:
                failure = StepFailed(request_id=sequence.request.id, cause=f"{type(error).__name__}: {error}")
                self._unpublished.append(self._commit.end(sequence, FinishReason.ERROR, failure))

    def _publish(self) -> None:
        began = self._clock()
        advances, self._unpublished = self._unpublished, []
        self._publisher.publish(advances)
        if self._issued is not None:
            issued, self._issued = self._issued, None
            self._stats.observe_stage("publish", self._clock() - began)
            self._observers.tell(issued, advances)
        if not self._roster:
            self._quiet.set()

    def _end_all(self) -> None:
        """The loop is over: no stream stays without its end, even if a broken law stops the stages from giving it."""
        self._stopping = True
        try:
            for sequence in list(self._roster):
                self._unpublished.append(self._commit.end(sequence, FinishReason.ERROR, EngineStopped()))
            self._publish()
        finally:
            self._publisher.end_all(EngineStopped())

    def _count_disconnect(self) -> None:
        self._stats.disconnects += 1

    def check(self) -> None:
        """Assert every law of every part, between two steps."""
        self._roster.check()
        self._tables.check(self._roster)
        self._grammars.check(self._roster)
        for sequence in self._roster:
            sequence.check()
            assert not sequence.ledger.in_flight, "nothing is in flight between two steps"
