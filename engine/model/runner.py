"""Executes plans on a thread of its own: plan in, chosen tokens and log-probabilities out."""

from collections.abc import Awaitable, Callable
from itertools import pairwise
from time import perf_counter
from typing import Protocol

import torch
from torch import Tensor

from engine.cache.memory import UnitMemory
from engine.errors import ModelUnsupported
from engine.model.answer import answer
from engine.model.asks import Sampler
from engine.model.pool import add_pooled
from engine.request import Sampling
from engine.step import Choose, Chunk, MaskSource, Plan, StateUse, StepResult, Table, Ticket
from engine.thread import StepThread


class ModelForward(Protocol):
    """A model's forward pass: the universal path's, or the straight-line decoder's."""

    weights: str  # the bits that its matrices are kept in, for people

    @property
    def storage(self) -> UnitMemory:
        """Where its cached rows lie."""
        ...

    @property
    def sampler(self) -> Sampler:
        """What chooses and scores by its logits."""
        ...

    def run(self, plan: Plan) -> Tensor:
        """Compute a plan, write its cache rows, and return the logits [rows that need them, vocabulary] float32."""
        ...

    def hidden(self, plan: Plan) -> Tensor:
        """The hidden states [pooled rows, width] float32, behind the last norm, of the plan that was just run."""
        ...

    def close(self) -> None:
        """End what it keeps running."""
        ...


class ModelRunner:
    """Implements `engine.step.Runner`: one plan at a time, all of them on one thread."""

    def __init__(self, forward: ModelForward, thread: StepThread, *, incarnation: int = 1) -> None:
        self.forward = forward
        self._thread = thread
        self._incarnation = incarnation

    @property
    def incarnation(self) -> int:
        """Which life of the worker answers now."""
        return self._incarnation

    def execute(self, plan: Plan, masks: MaskSource | None = None) -> Awaitable[StepResult]:
        """Compute the plan's positions, write their cache state, choose and score tokens; starts at once."""
        return self._thread.start(run_step, self.forward, plan, masks)

    def close(self) -> None:
        """End the thread, after the step that it runs."""
        self._thread.close()
        self.forward.close()


def make_runner(make_forward: Callable[[], ModelForward], *, incarnation: int = 1) -> ModelRunner:
    """Make the forward pass on a new thread, which is then its own, and try it once; blocking."""
    thread = StepThread("model-step")

    def prepare() -> ModelForward:
        with torch.inference_mode():
            forward = make_forward()
            try:
                _try_first_step(forward)
            except BaseException:
                forward.close()
                raise
            return forward

    try:
        return ModelRunner(thread.run(prepare), thread, incarnation=incarnation)
    except BaseException:
        thread.close()
        raise


def _try_first_step(forward: ModelForward) -> None:
    """Show that the cache has the model's shape, and pay for what libraries set up at their first call."""
    layout = forward.storage.layout
    tables = tuple(Table((unit,)) for unit in range(layout.num_tables))
    states = StateUse(source=None, target=0) if layout.states else None
    ticket = Ticket("first step", epoch=0, incarnation=0, base=0, tables=tables, states=states)
    chunk = Chunk(ticket, (0,), Choose(Sampling(seed=0), choice=0, output_index=0))
    try:
        run_step(forward, Plan(0, (chunk,)))
    except Exception as error:  # whatever a model's code raises
        raise ModelUnsupported(f"the first step failed with {error!r}") from error


@torch.inference_mode()
def run_step(forward: ModelForward, plan: Plan, masks: MaskSource | None = None) -> StepResult:
    """Execute one plan; blocking. The masks are made meanwhile: what is waited for them is a stage of its own."""
    times = [perf_counter()]
    logits = forward.run(plan)
    times.append(perf_counter())
    allowed = None if masks is None else masks()
    times.append(perf_counter())
    results = answer(plan.chunks, logits, forward.sampler, allowed)
    if plan.pooled_rows:
        results = add_pooled(results, plan.chunks, forward.hidden(plan))
    times.append(perf_counter())
    stages = zip(("model", "masks", "sample"), pairwise(times), strict=True)
    return StepResult(plan.number, results, tuple((stage, after - before) for stage, (before, after) in stages))
