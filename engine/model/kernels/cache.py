"""A layer's tensors in the cache as the native code reads them."""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from engine.cache.lanes import LaneStorage
from engine.model.kernels.native import Cache, CacheType

CACHE_TYPES = {torch.float32: CacheType.F32, torch.bfloat16: CacheType.BF16, torch.int8: CacheType.INT8}


class CacheForm(NamedTuple):
    """What a layer's tensors don't tell; whole numbers alone, for the operators' sake."""

    kv_heads: int
    key_dim: int
    value_dim: int
    block_size: int
    table: int  # which of the layout's block tables
    latent: int  # 1: V is the beginning of K


def form_of(storage: LaneStorage, layer: int) -> CacheForm:
    """The form of a layer's rows, its own or another's."""
    rows, table = storage.layout.group_of(layer).rows, storage.layout.places[layer].table
    return CacheForm(rows.num_kv_heads, rows.key_dim, rows.value_dim, storage.block_size, table, int(rows.latent))


def native_cache(tensors: Sequence[Tensor], form: CacheForm) -> Cache:
    """A layer's tensors [units, ...]: keys, values unless latent, and where they are int8 the scales of both."""
    keys, *others = tensors
    values = None if form.latent else others.pop(0)
    key_scales, value_scales = (*others, None, None)[:2]
    return Cache(
        keys=keys.data_ptr(),
        values=_address(values),
        key_scales=_address(key_scales),
        value_scales=_address(value_scales),
        key_stride=_unit_bytes(keys),
        value_stride=_unit_bytes(values),
        scale_stride=_unit_bytes(key_scales),
        **form._asdict(),
        type=CACHE_TYPES[keys.dtype],
    )


def _address(tensor: Tensor | None) -> int | None:
    return None if tensor is None else tensor.data_ptr()


def _unit_bytes(tensor: Tensor | None) -> int:
    return 0 if tensor is None else tensor.stride(0) * tensor.element_size()
