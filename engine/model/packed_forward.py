"""The universal path with the native kernels in it: any decoder of `transformers`, module by module."""

import functools
import math
from collections.abc import Callable

from torch import Tensor
from transformers import PreTrainedModel

from engine.cache.lanes import LaneStorage
from engine.cache.states import StateStorage
from engine.model.adapt import adapt
from engine.model.attention import NAME, attach
from engine.model.batch import make_batch
from engine.model.encoding import Encoded
from engine.model.experts import settle_routers
from engine.model.hidden import HiddenStates
from engine.model.kernels.choice import Kernels
from engine.model.kernels.matrix import describe_bits
from engine.model.kernels.product import Place
from engine.model.kernels.sampling import NativeSampler
from engine.model.mixers.attach import attach_mixers, normed_widths
from engine.model.native_scans import NativeScans
from engine.model.packed import KernelAttention, pack_linears
from engine.model.packed_groups import PackedGroups
from engine.model.padding import NARROW, Filling, settle_paddings, settle_threads
from engine.model.recurrence import Recurrence
from engine.step import Plan

VECTOR = 32  # values that torch's pointwise operators take at a time; a batch of whole ones has no leftovers


class PackedForward:
    """Runs plans through a model with our attention and packed linears in it; changes that model.

    Linears and attention give a row the same bits in every company; batches are padded for the sake of
    the pointwise operators between them. Made and run on one thread.
    """

    def __init__(
        self,
        model: PreTrainedModel,
        storage: LaneStorage,
        states: StateStorage,
        *,
        kernels: Kernels,
        max_rows: int,
        num_threads: int,
        reencode: Callable[[Encoded], Encoded],
    ) -> None:
        self.storage = storage
        self._library = kernels.library
        self.pool = self._library.open_pool(num_threads)
        self.sampler = NativeSampler(kernels.library, self.pool, kernels.level)
        place = Place(kernels, self.pool)
        self._model = model.eval()
        self._filling = Filling()
        make_groups = functools.partial(PackedGroups, place=place, reencode=reencode)
        adapt(model, make_groups)
        linears = pack_linears(model, place=place, filling=self._filling, reencode=reencode)
        model.float()  # what is left: norms, embeddings, routers
        body = [linear for linear in linears if linear is not model.get_output_embeddings()]
        grouped = [
            matrix for module in model.modules() if isinstance(module, PackedGroups) for matrix in module.matrices
        ]
        of_batch = [linear.matrix for linear in body] + grouped
        widths = normed_widths(model) | {width for each in of_batch for width in (each.inputs, each.outputs)}
        matrices = [linear.matrix for linear in linears] + grouped
        kinds = {matrix.kind for matrix in matrices}
        self.weights = describe_bits({kind: sum(m.num_bytes for m in matrices if m.kind is kind) for kind in kinds})
        quantum = VECTOR // math.gcd(VECTOR, *(width for width in widths if width >= NARROW))
        settle = functools.partial(settle_paddings, widths, quantum=quantum, max_rows=max_rows, dtype=model.dtype)
        _, self.paddings = settle_threads(num_threads, settle, max_rows=max_rows)  # the kernels keep all of theirs
        settle_routers(model)
        self.attention = KernelAttention(storage, place)
        attach(model, self.attention)
        self.recurrence = Recurrence(states, NativeScans(kernels, self.pool))
        attach_mixers(model, self.recurrence)
        model.set_attn_implementation(NAME)
        self._hidden = HiddenStates(model)

    def run(self, plan: Plan) -> Tensor:
        """Compute a plan, write its cache rows, and return the logits [rows that need them, vocabulary] float32."""
        batch = make_batch(plan, self.paddings)
        self._filling.begin(batch)
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
        """End the threads."""
        self._library.close_pool(self.pool)
