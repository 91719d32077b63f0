"""Executes plans on a thread of its own: plan in, chosen tokens and log-probabilities out."""

from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from dataclasses import replace
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
from engine.step import GUESSING, Choose, Chunk, MaskSource, Plan, StateUse, StepResult, Table, Ticket
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


class Guesser(Protocol):
    """Who finds the drafted tokens that a plan leaves open: a draft model."""

    def guess(self, plan: Plan) -> list[tuple[int, ...]]:
        """For each chunk of a plan the tokens that it has places for."""
        ...

    def close(self) -> None:
        """End what it keeps running."""
        ...


class ModelRunner:
    """Implements `engine.step.Runner`: one plan at a time, all of them on one thread."""

    def __init__(
        self, forward: ModelForward, thread: StepThread, *, guesser: Guesser | None = None, incarnation: int = 1
    ) -> None:
        self.forward = forward
        self._thread = thread
        self._guesser = guesser
        self._incarnation = incarnation

    @property
    def incarnation(self) -> int:
        """Which life of the worker answers now."""
        return self._incarnation

    def execute(self, plan: Plan, masks: MaskSource | None = None) -> Awaitable[StepResult]:
        """Compute the plan's positions, write their cache state, choose and score tokens; starts at once."""
        return self._thread.start(run_step, self.forward, plan, masks, self._guesser)

    def close(self) -> None:
        """End the thread, after the step that it runs."""
        self._thread.close()
        self.forward.close()
        if self._guesser is not None:
            self._guesser.close()


def make_runner(
    make_forward: Callable[[], ModelForward],
    *,
    make_guesser: Callable[[], Guesser] | None = None,
    incarnation: int = 1,
) -> ModelRunner:
    """Make the forward pass on a new thread, which is then its own, and try it once; blocking.

    Who guesses is made before: what torch is set to in the end is what the forward pass has found.
    """
    thread = StepThread("model-step")

    def prepare() -> ModelRunner:
        with torch.inference_mode(), ExitStack() as made:
            guesser = make_guesser() if make_guesser else None
            if guesser is not None:
                made.callback(guesser.close)
            forward = make_forward()
            made.callback(forward.close)
            try_first_step(forward)
            made.pop_all()  # they are the runner's
            return ModelRunner(forward, thread, guesser=guesser, incarnation=incarnation)

    try:
        return thread.run(prepare)
    except BaseException:
        thread.close()
        raise


def try_first_step(forward: ModelForward) -> None:
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
def run_step(
    forward: ModelForward, plan: Plan, masks: MaskSource | None = None, guesser: Guesser | None = None
) -> StepResult:
    """Execute one plan; blocking. What tokens it leaves open is guessed first."""
    if guesser is None or not plan.is_fed:
        return _run_whole(forward, plan, masks)
    began = perf_counter()
    guesses = guesser.guess(plan)
    seconds = perf_counter() - began
    chunks = tuple(chunk.with_guesses(found) for chunk, found in zip(plan.chunks, guesses, strict=True))
    result = _run_whole(forward, Plan(plan.number, chunks), masks)
    results = tuple(replace(each, guesses=found) for each, found in zip(result.chunks, guesses, strict=True))
    return StepResult(plan.number, results, ((GUESSING, seconds), *result.seconds))


def _run_whole(forward: ModelForward, plan: Plan, masks: MaskSource | None) -> StepResult:
    """Execute a plan of known tokens. The masks are made meanwhile: what is waited for them is a stage of its own."""
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
