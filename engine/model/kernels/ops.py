"""The kernels as torch operators, one call an instruction or two: for modules that run one by one.

`torch.ops.tidemark.linear`, `grouped` and `attention` have fake implementations, so that a graph
with them can be traced. A straight-line decoder runs whole programs instead.
"""

import ctypes

import torch
from torch import Tensor
from torch.nn import functional

from engine.cache.layout import padded_dim
from engine.model.kernels.builder import WIDTH_QUANTUM
from engine.model.kernels.cache import CacheForm, native_cache
from engine.model.kernels.library import library
from engine.model.kernels.native import (
    Attention,
    Buffer,
    Experts,
    Format,
    Heads,
    Instruction,
    Kind,
    Level,
    Library,
    Linear,
    Norm,
    NormKind,
    Op,
    Program,
    Rotary,
    Step,
    Weight,
)

FLOAT_BYTES = 4


@torch.library.custom_op("tidemark::linear", mutates_args=())
def linear(rows: Tensor, data: Tensor, bias: Tensor | None, form: list[int], level: int, pool: int) -> Tensor:
    """Rows [n, inputs] float32 times a packed matrix -> [n, outputs] float32.

    `data` is the matrix's, `form` its (outputs, inputs, kind, block, has_min), `bias` [outputs] float32;
    `level` and `pool` say where it runs.
    """
    outputs, inputs, kind, block, has_min = form
    weight = Weight(data.data_ptr(), data.shape[1], outputs, inputs, kind, block, has_min)
    out = rows.new_empty(len(rows), outputs)
    split = level == Level.AMX and kind != Kind.F32
    plain = _padded(rows)
    read = torch.empty_like(plain)
    shape = (read.data_ptr(), read.shape[1] * FLOAT_BYTES, inputs)
    buffers = [_plain(plain, inputs), Buffer(*shape, Format.SPLIT if split else Format.PLAIN), _plain(out, outputs)]
    copy = Norm(input=0, output=1, kind=NormKind.NONE, scale=1.0)
    body = Linear(input=1, output=2, scale=1.0, weight=weight, bias=None if bias is None else bias.data_ptr())
    code = [_instruction(Op.NORM, copy), _instruction(Op.LINEAR, body)]
    _run(level, pool, code, buffers, Step(num_rows=len(rows)))
    return out


@linear.register_fake
def _(rows: Tensor, data: Tensor, bias: Tensor | None, form: list[int], level: int, pool: int) -> Tensor:
    return rows.new_empty(rows.shape[0], form[0])


@torch.library.custom_op("tidemark::grouped", mutates_args=())
def grouped(
    rows: Tensor, starts: list[int], weights: Tensor, biases: Tensor | None, form: list[int], level: int, pool: int
) -> Tensor:
    """Rows [n, inputs] float32 in the order of their groups, each times its group's matrix -> [n, outputs] float32.

    Group g's rows are those from `starts[g]` up to `starts[g + 1]`. `weights` has the bytes of an array of Weight,
    one a group, whose matrices the caller keeps; `biases` are [groups, outputs] float32; `form` is (outputs,
    inputs, whether the matrices are float32).
    """
    outputs, inputs, plain_rows = form
    groups = len(starts) - 1
    out = rows.new_empty(len(rows), outputs)
    plain = _padded(rows)
    read = torch.empty_like(plain)
    split = level == Level.AMX and not plain_rows
    shape = (read.data_ptr(), read.shape[1] * FLOAT_BYTES, inputs)
    buffers = [_plain(plain, inputs), Buffer(*shape, Format.SPLIT if split else Format.PLAIN), _plain(out, outputs)]
    copy = Norm(input=0, output=1, kind=NormKind.NONE, scale=1.0)
    body = Experts(input=1, output=2, experts=groups, chosen=1, weights=weights.data_ptr())
    if biases is not None:
        stride = biases.shape[1] * FLOAT_BYTES
        addresses = torch.arange(groups) * stride + biases.data_ptr()
        body.biases = addresses.data_ptr()
    code = [_instruction(Op.NORM, copy), _instruction(Op.EXPERTS, body)]
    _run(level, pool, code, buffers, Step(num_rows=len(rows)), torch.tensor(starts, dtype=torch.int32))
    return out


@grouped.register_fake
def _(
    rows: Tensor, starts: list[int], weights: Tensor, biases: Tensor | None, form: list[int], level: int, pool: int
) -> Tensor:
    return rows.new_empty(rows.shape[0], form[0])


@torch.library.custom_op("tidemark::attention", mutates_args=("cache",))
def attention(  # noqa: PLR0913, PLR0917  # an operator's schema has no structures
    qkv: Tensor,
    cache: list[Tensor],
    step: list[Tensor],
    sinks: Tensor | None,
    form: list[int],
    cache_form: list[int],
    softcap: float,
    level: int,
    pool: int,
) -> Tensor:
    """Write K and V to the cache, attend over all that it holds: [n, heads × value dim] float32.

    `qkv` [n, (heads × key dim) | (kv heads × key dim) | (kv heads × value dim)] float32 has scaled queries,
    and no V for latent rows, and queries alone for rows that another layer writes; `cache` has the layer's
    tensors; `step` has int32 positions [n], slots [tables, n], spans [tables, chunks, 4] and block tables;
    `form` is (heads, window or 0, chunk or 0, whether another layer writes the rows), `cache_form` a CacheForm.
    """
    heads, window, chunk, shared = form
    rows = CacheForm(*cache_form)
    native = native_cache(cache, rows)
    widths = (qkv.shape[1], heads * padded_dim(rows.key_dim), heads * rows.value_dim)
    plain, queries, mixed = _padded(qkv), *(_padded(qkv.new_empty(len(qkv), width)) for width in widths[1:])
    buffers = [_plain(each, width) for each, width in zip((plain, queries, mixed), widths, strict=True)]
    write = Heads(input=0, output=1, heads=heads, rotary=Rotary.NONE, scale=1.0, shared=shared, cache=native)
    read = Attention(
        input=1,
        output=2,
        heads=heads,
        window=window,
        chunk=chunk,
        softcap=softcap,
        sinks=None if sinks is None else sinks.data_ptr(),
        cache=native,
    )
    positions, slots, spans, units = step
    native_step = Step(
        num_rows=len(qkv),
        num_spans=spans.shape[1],
        num_tables=len(spans),
        positions=positions.data_ptr(),
        slots=slots.data_ptr(),
        spans=spans.data_ptr(),
        units=units.data_ptr(),
    )
    _run(level, pool, [_instruction(Op.HEADS, write), _instruction(Op.ATTENTION, read)], buffers, native_step)
    return mixed[:, : heads * rows.value_dim].contiguous()


@attention.register_fake
def _(  # noqa: PLR0913, PLR0917  # as the operator
    qkv: Tensor,
    cache: list[Tensor],
    step: list[Tensor],
    sinks: Tensor | None,
    form: list[int],
    cache_form: list[int],
    softcap: float,
    level: int,
    pool: int,
) -> Tensor:
    return qkv.new_empty(qkv.shape[0], form[0] * CacheForm(*cache_form).value_dim)


def _padded(rows: Tensor) -> Tensor:
    """The rows, with zeros behind each up to a multiple of 32 values."""
    return functional.pad(rows, (0, -rows.shape[1] % WIDTH_QUANTUM)).contiguous()


def _plain(rows: Tensor, width: int) -> Buffer:
    return Buffer(rows.data_ptr(), rows.shape[1] * FLOAT_BYTES, width, Format.PLAIN)


def _instruction(op: Op, body: ctypes.Structure) -> Instruction:
    instruction = Instruction(op=op)
    setattr(instruction.body, op.name.lower(), body)
    return instruction


def _run(
    level: int,
    pool: int,
    instructions: list[Instruction],
    buffers: list[Buffer],
    step: Step,
    starts: Tensor | None = None,
) -> None:
    code = (Instruction * len(instructions))(*instructions)
    rows = (Buffer * len(buffers))(*buffers)
    program = Program(ctypes.addressof(code), len(code), len(rows), ctypes.addressof(rows))
    if starts is not None:
        program.route_starts = starts.data_ptr()
    _library().run(pool, Level(level), program, step)


def _library() -> Library:
    loaded = library()
    assert loaded is not None, "who holds a pool has the library"
    return loaded
