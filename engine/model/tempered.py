"""The temperature of queries by their position, where a module's own code takes the row's place in the batch for it."""

from typing import Any

import torch
from torch import Tensor, nn


class Positions:
    """Where the rows of the batch stand that the model runs."""

    def __init__(self) -> None:
        self.now = torch.empty(0)  # [1, rows]

    def take(self, model: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """What is called before the model is."""
        self.now = kwargs["position_ids"]


class Tempered(nn.Module):
    """A layer's queries, scaled by how many times `every` positions lie before them."""

    def __init__(self, queries: nn.Module, positions: Positions, scales: Tensor, every: int) -> None:
        super().__init__()
        self.queries = queries
        self.scales = scales  # by how many times; a table, since log1p has leftovers in a batch
        self.every = every
        self._positions = positions

    def forward(self, inputs: Tensor) -> Tensor:
        """[1, rows, hidden] -> [1, rows, heads × dim]."""
        times = (self._positions.now + 1) // self.every
        out: Tensor = self.queries(inputs)
        return (out * self.scales[times].unsqueeze(-1)).to(out.dtype)


def temper_queries(model: nn.Module) -> None:
    """Scale the queries of layers that do so by the position, not by the row (Llama-4's layers without rotary)."""
    positions = Positions()
    for module in list(model.modules()):
        if getattr(module, "attn_temperature_tuning", False) and not getattr(module, "use_rope", True):
            module.q_proj = _tempered(module, positions)
            module.attn_temperature_tuning = False  # type: ignore[assignment]  # a module types its attributes otherwise
    model.register_forward_pre_hook(positions.take, with_kwargs=True)


def _tempered(attention: Any, positions: Positions) -> Tempered:
    every = int(attention.floor_scale)
    most = attention.config.max_position_embeddings // every + 1
    scales = torch.log1p(torch.arange(most + 1).float()) * attention.attn_scale + 1.0
    return Tempered(attention.q_proj, positions, scales, every)
