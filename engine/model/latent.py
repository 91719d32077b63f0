"""Latent attention (MLA) over the compressed rows that are cached, not over the heads that they expand to.

What is cached of a position is its compressed row c, and behind it the part of the key that is turned, which
all heads share. A head's key is K c and its value V c, where K and V are its share of one expanding matrix. So its
score q · K c is Kᵀ q · c, and the sum of its values by their weights is V times the sum of the rows by their weights.
"""

from itertools import accumulate, repeat
from typing import Any

import torch
from torch import Tensor, nn

from engine.errors import ModelUnsupported
from engine.model.attention import LATENT
from engine.model.grouped import GroupMaker


class Latent(nn.Module):
    """One layer's expanding matrix, applied to queries and to what was attended to."""

    def __init__(self, attention: Any, make_groups: GroupMaker) -> None:
        super().__init__()
        expanding: nn.Linear = attention.kv_b_proj
        if expanding.bias is not None:
            raise ModelUnsupported(f"{type(attention).__name__} adds a bias to what it expands, which is not run")
        self.num_heads: int = attention.num_heads
        self.plain_dim: int = attention.qk_nope_head_dim
        by_head = expanding.weight.detach().view(self.num_heads, self.plain_dim + attention.v_head_dim, -1)
        self.keys: nn.Module = make_groups(by_head[:, : self.plain_dim].transpose(1, 2), None)
        self.values: nn.Module = make_groups(by_head[:, self.plain_dim :], None)

    def absorb(self, query: Tensor) -> Tensor:
        """Queries [heads, rows, plain dim + turned dim] -> [heads, rows, rank + turned dim]."""
        plain, turned = query.split([self.plain_dim, query.shape[-1] - self.plain_dim], dim=-1)
        return torch.cat([self._by_head(self.keys, plain), turned], dim=-1)

    def expand(self, mixed: Tensor) -> Tensor:
        """What the rows add up to, [rows, heads, rank] -> [rows, heads, value dim]."""
        return self._by_head(self.values, mixed.transpose(0, 1)).transpose(0, 1)

    def _by_head(self, groups: nn.Module, rows: Tensor) -> Tensor:
        num_rows = rows.shape[1]
        starts = list(accumulate(repeat(num_rows, self.num_heads), initial=0))
        out: Tensor = groups(rows.reshape(self.num_heads * num_rows, -1), starts)
        return out.view(self.num_heads, num_rows, -1)


def keep_latents(model: nn.Module, make_groups: GroupMaker) -> None:
    """Let all latent attention hand its compressed rows on, and give it what queries and results need then."""
    for module in list(model.modules()):
        if hasattr(module, "kv_b_proj") and hasattr(module, "expand_kv"):
            setattr(module, LATENT, Latent(module, make_groups))
            module.expand_kv = _join  # type: ignore[assignment]  # a module types its attributes otherwise
            del module.kv_b_proj


def _join(row: Tensor, turned: Tensor) -> tuple[Tensor, Tensor]:
    """In the place of K and V: the row as it is cached, [1, 1, rows, rank + turned dim], and its first part."""
    return torch.cat([row, turned], dim=-1), row
