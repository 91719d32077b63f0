"""One layer's attention over its cache: a program that is made once, and run on each step's rows."""

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

from engine.cache.layout import padded_dim
from engine.model.kernels.builder import FLOAT_BYTES
from engine.model.kernels.cache import CacheForm, native_cache
from engine.model.kernels.native import Attention, Buffer, Format, Heads, Instruction, Op, Rotary, Step
from engine.model.kernels.product import Place, clear_behind, instruction, padded, padded_width, program_of


@dataclass(frozen=True, slots=True)
class AttentionForm:
    """What a layer does with its cache, apart from the rows in it."""

    heads: int
    window: int  # 0: none, as the two below
    chunk: int
    softcap: float
    shared: bool  # another layer writes the rows


class CachedAttention:
    """Writes K and V of a step's rows to the cache, and attends over all that it holds; `sinks` are [heads] float32."""

    def __init__(
        self, place: Place, cache: Sequence[Tensor], rows: CacheForm, form: AttentionForm, sinks: Tensor | None
    ) -> None:
        native, heads = native_cache(cache, rows), form.heads
        write = Heads(input=0, output=1, heads=heads, rotary=Rotary.NONE, scale=1.0, shared=form.shared, cache=native)
        read = Attention(
            input=1,
            output=2,
            heads=heads,
            window=form.window,
            chunk=form.chunk,
            softcap=form.softcap,
            sinks=None if sinks is None else sinks.data_ptr(),
            cache=native,
        )
        self._kept = (cache, sinks)
        self._place, self._width = place, heads * rows.value_dim
        widths = (_fused_width(rows, form), heads * padded_dim(rows.key_dim), self._width)
        strides = [padded_width(width) * FLOAT_BYTES for width in widths]
        self._buffers = (Buffer * 3)(*(Buffer(0, *each, Format.PLAIN) for each in zip(strides, widths, strict=True)))
        self._input, self._queries, self._mixed = self._buffers
        self._code = (Instruction * 2)(instruction(Op.HEADS, write), instruction(Op.ATTENTION, read))
        self._program = program_of(self._code, self._buffers)

    def __call__(self, qkv: Tensor, step: Step, num_rows: int) -> Tensor:
        """The step's rows [n, (heads × key dim) | (kv heads × key dim) | (kv heads × value dim)] float32, attended.

        Queries are scaled; there is no V of latent rows, and there are queries alone where another layer writes the
        rows. Returns [num_rows, heads × value dim] float32, with zeros behind the step's rows.
        """
        plain, mixed = padded(qkv), qkv.new_empty(num_rows, padded_width(self._width))
        clear_behind(mixed, step.num_rows)
        self._input.data, self._mixed.data = plain.data_ptr(), mixed.data_ptr()
        self._queries.data = self._place.scratch(step.num_rows * self._queries.stride_bytes)
        self._place.run(self._program, step)
        return mixed[:, : self._width]


def make_step(step: Sequence[Tensor]) -> Step:
    """The step of int32 positions [n], slots [tables, n], spans [tables, chunks, 4] and block tables; they are kept."""
    positions, slots, spans, units = step
    return Step(
        num_rows=len(positions),
        num_spans=spans.shape[1],
        num_tables=len(spans),
        positions=positions.data_ptr(),
        slots=slots.data_ptr(),
        spans=spans.data_ptr(),
        units=units.data_ptr(),
    )


def _fused_width(rows: CacheForm, form: AttentionForm) -> int:
    """The values of queries, and of K and V as far as the layer writes them."""
    value_dim = 0 if rows.latent else rows.value_dim
    written = 0 if form.shared else rows.kv_heads * (rows.key_dim + value_dim)
    return form.heads * rows.key_dim + written
