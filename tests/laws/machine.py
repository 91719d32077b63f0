"""The rules: whatever may happen to an engine, in any order."""

import sys
from collections.abc import Callable
from dataclasses import replace
from itertools import cycle, islice

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from engine.request import Request
from tests.laws.client import Client
from tests.laws.held_runner import HeldRunner
from tests.laws.requests import refused, requests, shapes
from tests.laws.shape import Shape
from tests.laws.world import World

MIN_STEPS = 50  # of the engine, in a life that has requests
LONG = 30  # steps
STALE_ANSWERS = (HeldRunner.answer_after_rebirth, HeldRunner.answer_other_epoch, HeldRunner.answer_other_base)

some_client = st.integers(0, 9)


def in_flight(machine: "EngineMachine") -> bool:
    """Whether a step waits for its end."""
    return machine.world is not None and machine.world.runner.flight is not None


def has_clients(machine: "EngineMachine") -> bool:
    """Whether there is anybody."""
    return machine.world is not None and bool(machine.world.clients)


class EngineMachine(RuleBasedStateMachine):
    """One engine's life, ended by a drain or a stop, and compared with pure functions."""

    num_lives = 0
    num_long_lives = 0
    num_rules = 0
    num_steps = 0
    num_drafts_kept = 0
    num_drafts_rejected = 0
    num_bound = 0

    def __init__(self) -> None:
        super().__init__()
        self.world: World | None = None
        self.ends_by_stop = False
        self.num_requests = 0

    @initialize(
        shape=shapes, first=requests, second=requests, ends_by_stop=st.sampled_from((False, False, False, True))
    )
    def begin(self, shape: Shape, first: Request, second: Request, *, ends_by_stop: bool) -> None:
        """Set the engine up with something to do."""
        self.world = World(shape)
        self.ends_by_stop = ends_by_stop
        self.world.open([self._named(first), self._named(second)], eager=True)

    @property
    def _world(self) -> World:
        assert self.world is not None
        return self.world

    def _client(self, index: int) -> Client:
        return self._world.clients[index % len(self._world.clients)]

    def _named(self, request: Request) -> Request:
        self.num_requests += 1
        return replace(request, id=f"request-{self.num_requests}")

    @rule(request=requests, eager=st.booleans())
    def open(self, request: Request, *, eager: bool) -> None:
        """A request arrives."""
        self._world.open([self._named(request)], eager=eager)

    @rule(request=requests, other=requests, count=st.integers(1, 3))
    def open_together(self, request: Request, other: Request, count: int) -> None:
        """Twins arrive at once, with another request between them."""
        arriving = [request, other, *[request] * (count - 1)]
        self._world.open([self._named(request) for request in arriving], eager=True)

    @precondition(has_clients)
    @rule(index=some_client, max_tokens=st.sampled_from((3, 1, 8)))
    def open_again(self, index: int, max_tokens: int) -> None:
        """A request comes back, asking for another length."""
        request = self._client(index).request
        again = replace(request, pooling=None, stopping=replace(request.stopping, max_tokens=max_tokens))
        self._world.open([self._named(again)], eager=True)

    @rule(request=refused)
    def refuse(self, request: Request) -> None:
        """A request arrives that can never run."""
        num_clients = len(self._world.clients)
        self._world.open([self._named(request)], eager=True)
        assert len(self._world.clients) == num_clients

    @precondition(in_flight)
    @rule(count=st.integers(1, 6))
    def finish(self, count: int) -> None:
        """The next steps succeed."""
        self._world.finish_some(count)

    @precondition(in_flight)
    @rule()
    def finish_one(self) -> None:
        """The step in flight succeeds."""
        self._world.finish()

    @precondition(lambda self: in_flight(self) and self.world.may_fail)
    @rule()
    def fail(self) -> None:
        """The step in flight fails."""
        self._world.fail()

    @precondition(in_flight)
    @rule(answer=st.sampled_from(STALE_ANSWERS))
    def answer_stale(self, answer: Callable[[HeldRunner], None]) -> None:
        """The step in flight ends with an answer that does not fit."""
        self._world.answer_stale(answer)

    @precondition(lambda self: in_flight(self) and len(self.world.runner.flight.plan.chunks) > 1)
    @rule()
    def answer_in_disorder(self) -> None:
        """The results of the step in flight come in each other's place."""
        self._world.answer_stale(HeldRunner.answer_in_disorder)

    @precondition(has_clients)
    @rule(index=some_client, position=st.integers(0, 12))
    def curse(self, index: int, position: int) -> None:
        """From now on a request can't be computed beyond a position."""
        self._world.curse(self._client(index), position)

    @precondition(has_clients)
    @rule(index=some_client, abruptly=st.booleans())
    def leave(self, index: int, *, abruptly: bool) -> None:
        """A client leaves, perhaps once more."""
        self._world.leave(self._client(index), abruptly=abruptly)

    @precondition(has_clients)
    @rule(index=some_client)
    def park(self, index: int) -> None:
        """A client leaves that may come back."""
        self._world.park(self._client(index))

    @precondition(lambda self: has_clients(self) and any(client.parked for client in self.world.clients))
    @rule(index=some_client)
    def unpark(self, index: int) -> None:
        """A client comes back."""
        parked = [client for client in self._world.clients if client.parked]
        self._world.unpark(parked[index % len(parked)])

    @precondition(has_clients)
    @rule(index=some_client, count=st.integers(1, 4))
    def read(self, index: int, count: int) -> None:
        """A slow reader reads on."""
        self._client(index).allow(count)
        self._world.settle()

    @rule(seconds=st.sampled_from((1.0, 6.0, 11.0)))
    def wait(self, seconds: float) -> None:
        """Time passes."""
        self._world.loop.advance(seconds)

    @invariant()
    def laws_hold(self) -> None:
        """After each rule, every law."""
        if self.world is not None:
            type(self).num_rules += 1
            self.world.check()

    def teardown(self) -> None:
        """Serve out or stop, and compare every answer."""
        if self.world is None:
            return
        try:
            if sys.exc_info()[0] is None:  # a rule that failed has said what is wrong
                self._end(self.world)
        finally:
            self.world.close()
            type(self).num_lives += 1
            type(self).num_long_lives += self.world.num_steps >= LONG
            type(self).num_steps += self.world.num_steps
            drafts = self.world.engine.snapshot().drafts.values()
            type(self).num_drafts_kept += sum(each.kept for each in drafts)
            type(self).num_drafts_rejected += sum(each.tokens - each.kept for each in drafts)
            type(self).num_bound += self.world.num_bound

    def _end(self, world: World) -> None:
        """Ask for everything once more, until the life is long enough, and end it."""
        for request in islice(cycle([client.request for client in world.clients]), MIN_STEPS):
            if world.num_steps >= MIN_STEPS:
                break
            world.open([self._named(request)], eager=True)
            world.finish_some(MIN_STEPS - world.num_steps)
        if self.ends_by_stop:
            world.stop()
        else:
            world.drain()
