"""A digest runner that answers when it is told to: well, not at all, or with something stale."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, replace

from engine.step import ChunkResult, MaskSource, Plan, StepResult, Ticket
from tests.digest import DigestRunner
from tests.laws.shape import Shape


class StepBroke(Exception):
    """The step that was in flight has failed."""


@dataclass(frozen=True, slots=True)
class Flight:
    """A plan that was issued, and where its answer is awaited."""

    plan: Plan
    masks: MaskSource | None
    answer: asyncio.Future[StepResult]


class HeldRunner(DigestRunner):
    """Keeps each plan in flight; the cache is written when the flight ends, not before."""

    def __init__(self, shape: Shape, *, on_issue: Callable[[Plan], None]) -> None:
        self.draft_model = shape.made_draft_model()
        super().__init__(shape.layout, shape.sizes, block_size=shape.block_size, draft_model=self.draft_model)
        self.flight: Flight | None = None
        self.num_computed = 0  # positions of answers that had to be committed
        self.num_lost = 0  # positions of the others
        self._on_issue = on_issue

    def execute(self, plan: Plan, masks: MaskSource | None = None) -> asyncio.Future[StepResult]:
        """Take off."""
        assert self.flight is None, "one step in flight at a time"
        self._on_issue(plan)
        self.plans.append(plan)
        self.flight = Flight(plan, masks, asyncio.get_running_loop().create_future())
        return self.flight.answer

    def finish(self) -> None:
        """Answer the step in flight."""
        flight = self._land()
        self.num_computed += flight.plan.num_positions
        flight.answer.set_result(self.compute(flight.plan, flight.masks))

    def fail(self) -> None:
        """Break the step in flight off, with half of what it should write written."""
        flight = self._land()
        self.num_lost += flight.plan.num_positions
        self.spoil(flight.plan)
        flight.answer.set_exception(StepBroke("the step broke off"))

    def answer_after_rebirth(self) -> None:
        """Answer for a life that is over."""
        self.incarnation += 1
        self._answer_stale(lambda ticket: ticket)

    def answer_other_epoch(self) -> None:
        """Answer for what a sequence was before a preemption."""
        self._answer_stale(lambda ticket: replace(ticket, epoch=ticket.epoch - 1))

    def answer_other_base(self) -> None:
        """Answer for a chunk that begins elsewhere."""
        self._answer_stale(lambda ticket: replace(ticket, base=ticket.base + 1))

    def _answer_stale(self, change: Callable[[Ticket], Ticket]) -> None:
        flight = self._land()
        self.num_lost += flight.plan.num_positions
        result = self.compute(flight.plan, flight.masks)
        chunks = tuple(replace(chunk, ticket=change(chunk.ticket)) for chunk in result.chunks)
        flight.answer.set_result(replace(result, chunks=chunks))

    def answer_in_disorder(self) -> None:
        """Answer with the results of several chunks in each other's place."""
        flight = self._land()
        self.num_lost += flight.plan.num_positions
        result = self.compute(flight.plan, flight.masks)
        shifted: tuple[ChunkResult, ...] = (*result.chunks[1:], result.chunks[0])
        flight.answer.set_result(replace(result, chunks=shifted))

    def _land(self) -> Flight:
        assert self.flight is not None, "nothing is in flight"
        flight, self.flight = self.flight, None
        return flight
