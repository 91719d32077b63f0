"""A real engine over the digest model, with its clients and its clock: what happens to it, one thing at a time."""

import asyncio
from collections.abc import Callable, Iterable
from itertools import chain

from engine.engine import Engine
from engine.errors import EngineStopped, RequestRefused
from engine.request import Request
from engine.step import Plan
from tests.digest import VOCABULARY
from tests.laws.client import Client
from tests.laws.held_runner import HeldRunner
from tests.laws.loop import VirtualLoop
from tests.laws.shape import Shape
from tests.laws.watch import Watch

MAX_DRAIN_STEPS = 2_000  # far more than the requests of one example need if each is preempted after each step


class World:
    """The engine runs in its own loop, and every step waits for `finish` or another end."""

    def __init__(self, shape: Shape) -> None:
        self.shape = shape
        self.loop = VirtualLoop()
        self.tables = shape.tables()
        self.runner = HeldRunner(shape, on_issue=self._on_issue)
        self.engine = Engine(
            runner=self.runner,
            tables=self.tables,
            info=shape.info(),
            vocabulary=VOCABULARY,
            settings=shape.settings(),
            sources=shape.sources(),
            grammars=shape.grammars(),
            clock=self.loop.time,
        )
        self.watch = Watch(self.engine, self.tables, self.runner, shape)
        self.clients: list[Client] = []
        self._readers: list[asyncio.Task[None]] = []
        self._curses: dict[str, int] = {}  # by request: the position that no step computes alive
        self._engine_task = self.loop.create_task(self.engine.run())
        self.settle()

    def open(self, requests: Iterable[Request], *, eager: bool) -> None:
        """Let these requests arrive at once."""
        for request in requests:
            try:
                stream = self.engine.open(request)
            except RequestRefused as refusal:
                self.watch.refusal(request, refusal)
                continue
            self.watch.admission(request)
            sequences = [self.watch.sequence(f"{request.id}/{choice}") for choice in range(request.num_choices)]
            client = Client(request, sequences, stream, eager=eager, shape=self.shape)
            self.clients.append(client)
            self._readers.append(self.loop.create_task(client.read()))
        self.settle()

    def curse(self, client: Client, position: int) -> None:
        """From now on, no step that computes this position of the request survives."""
        self._curses[client.request.id] = position

    def finish(self) -> None:
        """Let the step in flight succeed, unless it is cursed."""
        plan = self._plan
        if self.may_fail and any(self._is_cursed(chunk.ticket.sequence, chunk.stop) for chunk in plan.chunks):
            self.fail()
            return
        before = self.engine.snapshot().positions
        self.loop.advance(self.shape.position_seconds * plan.num_positions)
        self.runner.finish()
        self.settle()
        self._raise_failures()
        after = self.engine.snapshot().positions
        rejected = after.rejected - before.rejected
        assert after.computed - before.computed + rejected == plan.num_positions, (
            "a step that succeeds is committed whole"
        )
        assert rejected <= sum(chunk.num_drafts for chunk in plan.chunks), "only drafts are rejected"

    def finish_some(self, count: int) -> None:
        """Let the next steps succeed, while there is work."""
        for _ in range(count):
            if self.runner.flight is None:
                return
            self.finish()
            self.check()

    def fail(self) -> None:
        """Let the step in flight fail."""
        plan = self._plan
        for client in self._clients_of(plan):
            client.note_failed_step(alone=len(plan.chunks) == 1)
        self.runner.fail()
        self.settle()

    def answer_stale(self, answer: Callable[[HeldRunner], None]) -> None:
        """Let the step in flight end with an answer that does not fit it: nothing may come of it."""
        before = [list(sequence.tokens) for sequence in self.watch.unfinished]
        sequences = list(self.watch.unfinished)
        answer(self.runner)
        self.settle()
        assert [sequence.tokens for sequence in sequences] == before, "a stale result is dropped whole"

    def leave(self, client: Client, *, abruptly: bool) -> None:
        """Let a client go: it closes its stream, or its task is cancelled."""
        client.note_leaving()
        if abruptly and not client.parked:
            self._readers[self.clients.index(client)].cancel()
        else:
            client.stream.close()
        if abruptly or self.runner.flight is None:
            self.settle()

    def park(self, client: Client) -> None:
        """Let a client go that may come back, in the midst of its reading."""
        reader = self._readers[self.clients.index(client)]
        if client.parked or reader.done():
            return
        client.park()
        reader.cancel()
        self.settle()

    def unpark(self, client: Client) -> None:
        """Let a client come back, and read on."""
        if not client.parked:
            return
        self.loop.call_soon(client.unpark)
        self._readers[self.clients.index(client)] = self.loop.create_task(client.read())
        self.settle()

    def settle(self) -> None:
        """Let everybody do what there is to do."""
        self.loop.settle()

    def check(self) -> None:
        """Every law, now."""
        self._raise_failures()
        self.runner.poison(self.tables.pool.free_units(), self.tables.states.pool.free_units())
        self.watch.check()
        for client in self.clients:
            client.check_buffer(self.shape.max_buffered_deltas)

    def drain(self) -> None:
        """Serve everything out, within a bounded number of steps, and compare it all."""
        parked = [client for client in self.clients if client.parked]
        for client in parked[::2]:
            self.unpark(client)
        for client in parked[1::2]:
            client.excuses.add(EngineStopped)
        self.engine.drain()
        for client in self.clients:
            client.hurry()
        self.settle()
        num_steps = self.num_steps
        while self.watch.unfinished:
            self.finish()
            self.check()
            assert self.num_steps - num_steps < MAX_DRAIN_STEPS, "every request ends"
        self.loop.run_until_complete(self.engine.drained())
        self.stop()

    def stop(self) -> None:
        """End the engine under its requests and compare what they got."""
        for client in self.clients:
            client.excuses.add(EngineStopped)
            client.hurry()
            self.unpark(client)
        self.engine.stop()
        self.settle()
        if self.runner.flight is not None:
            self.runner.finish()
            self.settle()
        self._compare()

    def close(self) -> None:
        """Leave nothing behind."""
        tasks = [*self._readers, self._engine_task]
        for task in tasks:
            task.cancel()
        self.loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
        self.loop.close()

    def _on_issue(self, plan: Plan) -> None:
        self.watch.issue(plan)
        for client in self.clients:
            if client.left and client.stream.closed:
                assert not any(map(self.watch.is_unfinished, client.sequences)), "who has left is gone within a step"
            if client.parked:
                assert not any(each.held.anything for each in client.sequences), "who is parked holds nothing"

    @property
    def num_steps(self) -> int:
        """Steps that were issued."""
        return len(self.runner.plans)

    @property
    def num_bound(self) -> int:
        """Outputs that followed a grammar."""
        bound = [client for client in self.clients if client.request.grammar is not None]
        return sum(sequence.num_outputs for client in bound for sequence in client.sequences)

    @property
    def may_fail(self) -> bool:
        """Whether one more failure in a row is not yet taken for the engine's own."""
        return self.engine._num_failed_steps <= self.shape.max_sequences

    @property
    def _plan(self) -> Plan:
        assert self.runner.flight is not None, "work is left and nothing is in flight"
        return self.runner.flight.plan

    def _is_cursed(self, sequence_id: str, stop: int) -> bool:
        position = self._curses.get(sequence_id.rpartition("/")[0])
        return position is not None and stop > position

    def _clients_of(self, plan: Plan) -> list[Client]:
        requests = {chunk.ticket.sequence.rpartition("/")[0] for chunk in plan.chunks}
        return [client for client in self.clients if client.request.id in requests]

    def _compare(self) -> None:
        assert self._engine_task.done(), "the engine has stopped"
        self._raise_failures()
        self.watch.check_end(list(chain.from_iterable(client.sequences for client in self.clients)))
        for client, reader in zip(self.clients, self._readers, strict=True):
            assert reader.done(), "every stream has ended"
            client.check()
        published = sum(client.num_published for client in self.clients)
        assert self.engine.snapshot().positions.published == published, "published is what the streams were handed"

    def _raise_failures(self) -> None:
        for task in (self._engine_task, *self._readers):
            if task.done() and not task.cancelled():
                task.result()
