"""Norms of queries and keys shared out anew, so that keys lose as little as can be to an int8 cache.

A head's key is rounded in steps as large as the whole of it demands, and a query multiplies the error of each value
by its own. A factor that goes from key to query leaves products as they are; what is lost is least where each
value of the key has as much weight as the query's. Their norms tell, and values that are turned together share it.
"""

import torch
from torch import Tensor

from engine.model.kernels.native import Rotary
from engine.model.structure import RotaryData

LEAST_SHARE = 1e-3  # of the mean square: a channel that a norm all but shuts is not raised for ever
LEAST_SQUARE = 1e-30


def balanced(query: Tensor, key: Tensor, rotary: RotaryData | None) -> tuple[Tensor, Tensor]:
    """The weights [head dim] of the norms of queries and keys, with equal products and evenly shared."""
    partners = _partners(len(key), rotary)
    factor = (_squares(key, partners) / _squares(query, partners)).pow(0.25)
    return query * factor, key / factor


def _squares(weight: Tensor, partners: Tensor) -> Tensor:
    own = weight.square()
    both = own + own[partners]
    return both.clamp(min=max(float(both.mean()) * LEAST_SHARE, LEAST_SQUARE))


def _partners(dim: int, rotary: RotaryData | None) -> Tensor:
    """For each value of a head the one that it is turned with; itself where it is not."""
    partners = torch.arange(dim)
    if rotary is None:
        return partners
    shape, axis = ((-1, 2), 1) if rotary.style is Rotary.INTERLEAVED else ((2, -1), 0)
    turned = partners[: rotary.dim].view(shape).flip(axis).flatten()
    return torch.cat([turned, partners[rotary.dim :]])
