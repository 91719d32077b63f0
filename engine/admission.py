"""Admission: the bounded queue. A request is refused at the door or will be run."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import takewhile

from engine.cache.hits import Match
from engine.cache.tables import BlockTables
from engine.course import Event, Loss
from engine.errors import ContextTooLong, EmptyPrompt, QueueFull, RequestRefused, UnknownToken
from engine.preemption import preempt
from engine.request import Request
from engine.roster import Roster
from engine.sequence import Sequence, State
from engine.stats import Stats

RETRY_AFTER_SECONDS = 1  # a place in the queue is freed with every request that is admitted


class Admission:
    """Turns requests into waiting sequences, and waiting sequences into running ones."""

    def __init__(
        self,
        *,
        tables: BlockTables,
        roster: Roster,
        stats: Stats,
        context_length: int,
        vocabulary_size: int,
        max_sequences: int,
        max_waiting: int,
        reserved_outputs: int,
    ) -> None:
        self._tables = tables
        self._roster = roster
        self._stats = stats
        self._context_length = context_length
        self._vocabulary_size = vocabulary_size
        self._max_sequences = max_sequences
        self._max_waiting = max_waiting
        self._reserved_outputs = reserved_outputs
        self._num_arrived = 0

    def offer(self, request: Request, *, now: float) -> list[Sequence]:
        """Take the request's sequences into the queue, or raise the RequestRefused that says why not.

        Of a prediction counts what the model could say: tokens up to the first that is not in its vocabulary.
        """
        self.examine(request)
        with self._counting():
            self._refuse_what_finds_no_place()
        request = replace(request, prediction=tuple(takewhile(self._is_known, request.prediction)))
        return [self._enqueue(request, choice, now) for choice in range(request.num_choices)]

    def examine(self, request: Request) -> None:
        """Raise the RequestRefused of a request that can never run."""
        with self._counting():
            self._refuse_what_can_never_run(request)

    @contextmanager
    def _counting(self) -> Iterator[None]:
        try:
            yield
        except RequestRefused as refusal:
            self._stats.refusals[type(refusal).__name__] += 1
            raise

    def _refuse_what_can_never_run(self, request: Request) -> None:
        if not request.prompt:
            raise EmptyPrompt
        self._refuse_unknown_tokens("prompt", request.prompt)
        self._refuse_unknown_tokens("stop_token_ids", tuple(request.stopping.token_ids))
        self._refuse_unknown_tokens("logit_bias", tuple(token for token, _ in request.sampling.logit_bias))
        room_needed = 0 if request.chooses_nothing else 1
        if len(request.prompt) + room_needed > self._context_length:
            raise ContextTooLong(prompt_tokens=len(request.prompt), limit=self._context_length)

    def _refuse_unknown_tokens(self, field: str, tokens: tuple[int, ...]) -> None:
        for token in (min(tokens, default=0), max(tokens, default=0)):
            if not self._is_known(token):
                raise UnknownToken(field=field, token=token, vocabulary_size=self._vocabulary_size)

    def _is_known(self, token: int) -> bool:
        return 0 <= token < self._vocabulary_size

    def _refuse_what_finds_no_place(self) -> None:
        """Count requests, not their choices; one that could be admitted at once takes no place in the queue."""
        waiting = {sequence.request.id for sequence in self._roster.waiting if sequence.admitted_at is None}
        free_seats = max(0, self._max_sequences - len(self._roster.running))
        if len(waiting) >= self._max_waiting + free_seats:
            raise QueueFull(waiting=len(waiting), limit=self._max_waiting, retry_after_seconds=RETRY_AFTER_SECONDS)

    def _enqueue(self, request: Request, choice: int, now: float) -> Sequence:
        self._num_arrived += 1
        sequence = Sequence(
            request,
            choice,
            number=self._num_arrived,
            max_length=self._max_length(request),
            positions=self._stats.positions,
            arrived_at=now,
        )
        self._roster.add(sequence)
        return sequence

    def _max_length(self, request: Request) -> int:
        room = self._context_length - len(request.prompt)
        wanted = request.stopping.max_tokens
        return len(request.prompt) + (room if wanted is None else min(room, wanted))

    def aborted(self) -> list[Sequence]:
        """The sequences that the streams want ended since the last step."""
        return [sequence for sequence in self._roster if sequence.aborted]

    def settle_parks(self) -> None:
        """Park whose client has left, without its cache; queue again whose client has come back."""
        for sequence in list(self._roster):
            if sequence.parked and sequence.state is not State.PARKED:
                if sequence.held.anything:
                    self._take_cache(sequence, Loss.PARKED)
                self._roster.move(sequence, State.PARKED, Event.PARKED)
        for sequence in [parked for parked in self._roster.parked if not parked.parked]:
            self._roster.move(sequence, State.WAITING, Event.UNPARKED)

    def settle_pauses(self) -> None:
        """Pause whose stream is full; let the others go on, with a seat if they still have their cache."""
        for sequence in list(self._roster):
            if sequence.stalled and sequence.state not in (State.PAUSED, State.PARKED):
                self._roster.move(sequence, State.PAUSED, Event.PAUSED)
        for sequence in [paused for paused in self._roster.paused if not paused.stalled]:
            if not sequence.held.anything:
                self._roster.move(sequence, State.WAITING, Event.UNPAUSED)
            elif self._has_seat:
                self._roster.move(sequence, State.RUNNING, Event.RESUMED)

    @property
    def _has_seat(self) -> bool:
        return len(self._roster.running) < self._max_sequences

    def admit(self, *, now: float) -> None:
        """Start waiting sequences, in order, while there are seats, and room for all they know and some outputs.

        The first that does not fit holds back those behind it, so that it can't starve; one that
        would compute what a running sequence is about to make shareable lets others pass.
        """
        if not self._roster.waiting:
            return
        reserved = sum(self._num_wanted(sequence) for sequence in self._roster.running)
        for sequence in list(self._roster.waiting):
            if not self._has_seat:
                return
            match = self._tables.match(sequence)
            if any(self._tables.leads(leader, sequence, match) for leader in self._roster.running):
                continue
            needed = self._num_wanted(sequence, match)
            if not self._make_room(needed + reserved, match):
                return
            self._start(sequence, match, now)
            reserved += self._num_wanted(sequence)

    def _num_wanted(self, sequence: Sequence, match: Match | None = None) -> int:
        """Units that a sequence still takes for the tokens it knows, and for some of the outputs that may follow."""
        upto = min(len(sequence.tokens) + self._reserved_outputs, sequence.max_length)
        return self._tables.num_wanted(sequence, upto, match)

    def _make_room(self, needed: int, match: Match) -> bool:
        """Whether there is room for a start beside the match; paused sequences lose theirs for it."""
        while not self._tables.has_room(needed, match):
            victim = next((paused for paused in reversed(self._roster.paused) if paused.held.anything), None)
            if victim is None:
                return False
            self._take_cache(victim, Loss.ROOM)
        return True

    def _take_cache(self, sequence: Sequence, why: Loss) -> None:
        preempt(sequence, why, roster=self._roster, tables=self._tables, stats=self._stats)

    def _start(self, sequence: Sequence, match: Match, now: float) -> None:
        self._tables.seat(sequence, match)
        sequence.ledger.admit(match.num_positions, self._tables.drafted_upto(sequence))
        event = Event.RESUMED
        if sequence.cached_tokens is None:
            event = Event.ADMITTED
            sequence.cached_tokens = match.num_positions
            sequence.admitted_at = now
            self._stats.queue.observe(now - sequence.arrived_at)
            self._stats.prefix_queries += sequence.num_prompt
            self._stats.prefix_hits += match.num_positions
        self._roster.move(sequence, State.RUNNING, event, cached=match.num_positions)
