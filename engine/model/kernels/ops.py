"""The kernels as torch operators, for whoever traces a graph with them: they have fake implementations.

`torch.ops.tidemark.linear`, `grouped` and `attention` make what they run anew in each call. Modules that run step
after step keep it, and call it without torch's dispatch.
"""

import torch
from torch import Tensor

from engine.model.kernels.attention import AttentionForm, CachedAttention, make_step
from engine.model.kernels.cache import CacheForm
from engine.model.kernels.choice import Kernels
from engine.model.kernels.library import library
from engine.model.kernels.native import Level, Weight
from engine.model.kernels.product import GroupedProduct, MatrixProduct, Place


@torch.library.custom_op("tidemark::linear", mutates_args=())
def linear(rows: Tensor, data: Tensor, bias: Tensor | None, form: list[int], level: int, pool: int) -> Tensor:
    """Rows [n, inputs] float32 times a packed matrix -> [n, outputs] float32.

    `data` is the matrix's, `form` its (outputs, inputs, kind, block, has_min), `bias` [outputs] float32;
    `level` and `pool` say where it runs.
    """
    weight = Weight(data.data_ptr(), data.shape[1], *form)
    return MatrixProduct(_place(level, pool), weight, bias)(rows, len(rows))


@linear.register_fake
def _(rows: Tensor, data: Tensor, bias: Tensor | None, form: list[int], level: int, pool: int) -> Tensor:
    return rows.new_empty(rows.shape[0], form[0])


@torch.library.custom_op("tidemark::grouped", mutates_args=())
def grouped(
    rows: Tensor, starts: list[int], weights: Tensor, biases: Tensor | None, outputs: int, level: int, pool: int
) -> Tensor:
    """Rows [n, inputs] float32 in the order of their groups, each times its group's matrix -> [n, outputs] float32.

    Group g's rows are those from `starts[g]` up to `starts[g + 1]`. `weights` has the bytes of an array of Weight,
    one a group, whose matrices the caller keeps; `biases` are [groups, outputs] float32.
    """
    array = (Weight * (len(starts) - 1)).from_address(weights.data_ptr())
    return GroupedProduct(_place(level, pool), list(array), biases)(rows, starts)


@grouped.register_fake
def _(
    rows: Tensor, starts: list[int], weights: Tensor, biases: Tensor | None, outputs: int, level: int, pool: int
) -> Tensor:
    return rows.new_empty(rows.shape[0], outputs)


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
    layer = AttentionForm(heads, window, chunk, softcap, shared=bool(shared))
    attention = CachedAttention(_place(level, pool), cache, CacheForm(*cache_form), layer, sinks)
    return attention(qkv, make_step(step), len(qkv)).contiguous()


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


def _place(level: int, pool: int) -> Place:
    loaded = library()
    assert loaded is not None, "who holds a pool has the library"
    return Place(Kernels(loaded, Level(level)), pool)
