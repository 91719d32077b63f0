"""Executes plans on a thread of its own: plan in, chosen tokens and log-probabilities out."""

import asyncio
import os
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from time import perf_counter

import torch

from engine.cache.layout import Layout
from engine.cache.storage import KVStorage
from engine.errors import ModelUnsupported
from engine.model.answer import answer
from engine.model.batch import make_batch
from engine.model.forward import Forward
from engine.model.load import LoadedModel
from engine.request import Sampling
from engine.step import Choose, Chunk, Plan, StepResult, Ticket


class ModelRunner:
    """Implements `engine.step.Runner`: one plan at a time, all of them on one thread."""

    def __init__(self, forward: Forward, thread: ThreadPoolExecutor, *, incarnation: int = 1) -> None:
        self.forward = forward
        self._thread = thread
        self._incarnation = incarnation

    @property
    def incarnation(self) -> int:
        """Which life of the worker answers now."""
        return self._incarnation

    def execute(self, plan: Plan) -> "asyncio.Future[StepResult]":
        """Compute the plan's positions, write their cache state, choose and score tokens; starts at once."""
        return asyncio.get_running_loop().run_in_executor(self._thread, run_step, self.forward, plan)

    def close(self) -> None:
        """End the thread, after the step that it runs."""
        self._thread.shutdown(wait=True)


def make_runner(
    loaded: LoadedModel,
    layout: Layout,
    *,
    num_blocks: int,
    block_size: int,
    max_positions: int,
    num_threads: int | None = None,
    incarnation: int = 1,
) -> ModelRunner:
    """Reserve the cache and prepare the model on a new thread; blocking.

    `max_positions` is the most positions of a step; `num_threads` None is one for each core that this
    process may use. `loaded.model` belongs to the runner from now on.
    """
    thread = ThreadPoolExecutor(1, thread_name_prefix="model-step")

    def prepare() -> Forward:
        device = loaded.model.device
        storage = KVStorage(layout.groups[0], num_blocks=num_blocks, block_size=block_size, device=device)
        threads = num_threads or len(os.sched_getaffinity(0))
        with torch.inference_mode():
            forward = Forward(loaded.model, storage, max_rows=max_positions, num_threads=threads)
            _try_first_step(forward)
            return forward

    try:
        return ModelRunner(thread.submit(prepare).result(), thread, incarnation=incarnation)
    except BaseException:
        thread.shutdown()
        raise


def _try_first_step(forward: Forward) -> None:
    """Show that the cache has the model's shape, and pay for what libraries set up at their first call."""
    ticket = Ticket("first step", epoch=0, incarnation=0, base=0, blocks=(0,))
    chunk = Chunk(ticket, (0,), Choose(Sampling(seed=0), choice=0, output_index=0))
    try:
        run_step(forward, Plan(0, (chunk,)))
    except Exception as error:  # whatever a model's code raises
        raise ModelUnsupported(f"the first step failed with {error!r}") from error


@torch.inference_mode()
def run_step(forward: Forward, plan: Plan) -> StepResult:
    """Execute one plan; blocking."""
    times = [perf_counter()]
    batch = make_batch(plan, forward.paddings)
    times.append(perf_counter())
    logits = forward.run(batch)
    times.append(perf_counter())
    results = answer(plan.chunks, logits)
    times.append(perf_counter())
    stages = zip(("batch", "model", "sample"), pairwise(times), strict=True)
    return StepResult(plan.number, results, tuple((stage, after - before) for stage, (before, after) in stages))
