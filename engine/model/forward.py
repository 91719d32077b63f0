"""One model's forward pass over packed rows, made independent of the batch."""

import logging

from torch import Tensor
from transformers import PreTrainedModel

from engine.cache.states import StateStorage
from engine.cache.storage import KVStorage
from engine.model import scans
from engine.model.adapt import adapt
from engine.model.attention import NAME, PagedAttention, attach, settle_geometries
from engine.model.batch import make_batch
from engine.model.experts import settle_routers
from engine.model.grouped import RowGroups
from engine.model.hidden import HiddenStates
from engine.model.linear import BATCH_LOADS, HEAD_LOADS, RowLinear, replace_linears, settle_rows
from engine.model.mixers.attach import attach_mixers, normed_widths
from engine.model.padding import settle_paddings, settle_threads
from engine.model.recurrence import Recurrence
from engine.model.sampler import answer_rows
from engine.step import Plan

logger = logging.getLogger(__name__)


class Forward:
    """Runs batches through a model with our attention and our linears in it; changes that model.

    Made on the thread that will run it: what it measures holds for that thread's settings. `max_rows`
    is the most positions of a batch, `num_threads` the most threads; fewer are used where more would
    make rows depend on each other.
    """

    sampler = staticmethod(answer_rows)

    def __init__(
        self, model: PreTrainedModel, storage: KVStorage, states: StateStorage, *, max_rows: int, num_threads: int
    ) -> None:
        self.storage = storage
        self.weights = str(model.dtype).removeprefix("torch.")
        self._model = model.eval()
        head = model.get_output_embeddings()
        adapt(model, RowGroups)
        linears = replace_linears(model)
        heads = [linear for linear in linears if head is not None and linear.weight is head.weight]
        body = [linear for linear in linears if linear not in heads]
        normed = normed_widths(model)
        self.num_threads, self.paddings = _settle(body, normed, max_rows=max_rows, num_threads=num_threads)
        settle_rows(heads, loads=HEAD_LOADS)
        settle_routers(model)
        num_heads = getattr(model.config, "num_attention_heads", 0)  # a model of recurrent layers alone has none
        self.attention = PagedAttention(storage, settle_geometries(storage, num_heads))
        attach(model, self.attention)
        self.recurrence = Recurrence(states, scans)
        attach_mixers(model, self.recurrence)
        model.set_attn_implementation(NAME)
        self._hidden = HiddenStates(model)

    def run(self, plan: Plan) -> Tensor:
        """Compute a plan, write its cache rows, and return the logits [rows that need them, vocabulary] float32."""
        batch = make_batch(plan, self.paddings)
        self.attention.begin(batch.spans)
        self.recurrence.begin(batch.spans)
        output = self._model(
            input_ids=batch.ids, position_ids=batch.positions, use_cache=False, logits_to_keep=batch.logit_rows
        )
        logits: Tensor = output.logits[0]
        return logits.float()

    def hidden(self, plan: Plan) -> Tensor:
        """The hidden states [pooled rows, width] float32, behind the last norm, of the plan that was just run."""
        return self._hidden.of(plan)

    def close(self) -> None:
        """Nothing to end: torch keeps its threads."""


def _settle(
    linears: list[RowLinear], normed: set[int], *, max_rows: int, num_threads: int
) -> tuple[int, tuple[int, ...]]:
    """The number of threads to use, and the row counts to pad batches to. `normed` are widths of other values."""
    widths = normed | {width for linear in linears for width in (linear.in_features, linear.out_features)}

    def settle() -> tuple[int, ...]:
        quantum = settle_rows(linears, loads=BATCH_LOADS)
        return settle_paddings(widths, quantum=quantum, max_rows=max_rows, dtype=linears[0].weight.dtype)

    threads, paddings = settle_threads(num_threads, settle, max_rows=max_rows)
    _warn(linears, threads, num_threads)
    return threads, paddings


def _warn(linears: list[RowLinear], num_threads: int, asked: int) -> None:
    """Say what independent rows cost more than they should."""
    if num_threads < asked:
        logger.warning("%d of %d threads are used: with more, rows of a batch change each other", num_threads, asked)
    if any(linear.rows.counts == (1,) for linear in linears):
        logger.warning("rows are computed one by one, which is slow: together they change each other on this machine")
