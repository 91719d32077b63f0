"""The experts of a model's layers, computed so that a row's result never depends on the other rows.

A row and one of the experts that it chose are a pair. Pairs are put in the order of their experts, and
each expert's matrices meet all its pairs at once.
"""

import functools
from collections.abc import Callable
from itertools import accumulate
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from engine.errors import ModelUnsupported
from engine.model.grouped import GroupMaker
from engine.model.linear import settle_count

SCALED = frozenset({"Llama4TextMoe"})  # those whose experts read rows that are scaled by the router
CONVOLUTIONS = (nn.Conv1d, nn.Conv2d, nn.Conv3d)  # whose matrices have three dimensions too


class Experts(nn.Module):
    """The experts of one layer; the module that they replace still says how gates and ups become one.

    `scales_inputs`: the weights are for what goes into an expert, not for what comes out.
    """

    def __init__(self, replaced: nn.Module, make_groups: GroupMaker, *, scales_inputs: bool = False) -> None:
        super().__init__()
        self.act = _act_of(replaced)
        self.scales_inputs = scales_inputs
        transposed = scales_inputs or bool(getattr(replaced, "is_transposed", False))
        first = "gate_up_proj" if hasattr(replaced, "gate_up_proj") else "up_proj"
        self.num_experts = len(getattr(replaced, first))
        self.up = _take(replaced, first, make_groups, transposed=transposed)
        self.down = _take(replaced, "down_proj", make_groups, transposed=transposed)

    def forward(self, hidden_states: Tensor, top_k_index: Tensor, top_k_weights: Tensor) -> Tensor:
        """Rows [n, hidden], the experts [n, chosen] of each and their weights -> [n, hidden]."""
        num_rows, chosen = top_k_index.shape
        experts = top_k_index.flatten()
        order = experts.argsort(stable=True)
        starts = [0, *accumulate(experts.bincount(minlength=self.num_experts).tolist())]
        rows, weights = hidden_states[order // chosen], top_k_weights.flatten()[order].unsqueeze(-1)
        projected = self.up(rows * weights if self.scales_inputs else rows, starts)
        acted = torch.cat([self.act(part) for part in projected.split(num_rows)])  # so many are known to agree
        out = self.down(acted, starts)
        weighted = out if self.scales_inputs else out * weights  # in float32 where the router's weights are
        pairs = torch.empty_like(weighted).index_copy_(0, order, weighted)
        return _sum(pairs.view(num_rows, chosen, -1)).to(hidden_states.dtype)


class ScaledExperts(nn.Module):
    """A feed-forward part whose experts read rows that its router scaled, beside an expert that all rows share."""

    def __init__(self, replaced: Any, make_groups: GroupMaker) -> None:
        super().__init__()
        self.router: nn.Module = replaced.router
        self.shared_expert: nn.Module = replaced.shared_expert
        self.experts = Experts(replaced.experts, make_groups, scales_inputs=True)
        self.top_k: int = replaced.top_k

    def forward(self, hidden_states: Tensor) -> tuple[Tensor, Tensor]:
        """Rows […, hidden] -> [n, hidden], and the router's scores."""
        rows = hidden_states.reshape(-1, hidden_states.shape[-1])
        scores, logits = self.router(rows)
        weights, index = scores.topk(self.top_k, dim=-1)
        return self.shared_expert(rows) + self.experts(rows, index, weights), logits


class FixedRows(nn.Module):
    """A router that is computed with one number of rows alone, so that each row has the same bits in any company."""

    def __init__(self, router: nn.Module, num_rows: int = 1) -> None:
        super().__init__()
        self.router = router
        self.num_rows = num_rows

    def forward(self, hidden_states: Tensor, bias: Tensor | None = None) -> tuple[Tensor, ...]:
        """What the router says of rows [n, hidden]: tensors of n rows. Some add a `bias` [experts] to their scores."""
        more = () if bias is None else (bias,)
        rows = hidden_states.reshape(-1, hidden_states.shape[-1])
        padded = functional.pad(rows, (0, 0, 0, -len(rows) % self.num_rows))
        found = [self.router(piece, *more) for piece in padded.split(self.num_rows)]
        return tuple(torch.cat(parts)[: len(rows)] for parts in zip(*found, strict=True))


def replace_experts(model: nn.Module, make_groups: GroupMaker) -> list[Experts]:
    """Put ours in the place of all experts, and fix the rows of their routers; returns what the model has then.

    Raises ModelUnsupported where a layer's matrices are held in another way.
    """
    for parent in list(model.modules()):
        for name, child in list(parent.named_children()):
            if type(child).__name__ in SCALED:
                setattr(parent, name, ScaledExperts(child, make_groups))
            elif hasattr(child, "has_gate") and hasattr(child, "is_transposed"):  # of the library's interface
                if getattr(child, "has_post_expert_norm", False):
                    raise ModelUnsupported(f"{type(child).__name__} norms what each expert gives, which is not run")
                setattr(parent, name, Experts(child, make_groups))
    for parent in list(model.modules()):
        if any(isinstance(child, Experts) for child in parent.children()):
            _fix_routers(parent)
    _check_rest(model)
    return [module for module in model.modules() if isinstance(module, Experts)]


def _act_of(replaced: Any) -> Callable[[Tensor], Tensor]:
    """What makes of an expert's first layer what its last one reads."""
    if not hasattr(replaced, "gate_up_proj"):
        act: Callable[[Tensor], Tensor] = replaced.act_fn
        return act
    return getattr(replaced, "_apply_gate", None) or functools.partial(_gate, replaced.act_fn)


def _gate(act: Callable[[Tensor], Tensor], projected: Tensor) -> Tensor:
    gate, up = projected.chunk(2, dim=-1)
    return act(gate) * up


def settle_routers(model: nn.Module) -> None:
    """Measure with how many rows each router is computed, on the threads and in the type that the model has now."""
    for module in model.modules():
        if isinstance(module, FixedRows):
            weight = module.router.weight
            assert isinstance(weight, Tensor)
            module.num_rows = settle_count(weight)


def _take(replaced: nn.Module, name: str, make_groups: GroupMaker, *, transposed: bool) -> nn.Module:
    """The layer of one of the module's stacked matrices, which the module then holds no longer."""
    weights, biases = getattr(replaced, name), getattr(replaced, f"{name}_bias", None)
    delattr(replaced, name)
    return make_groups(weights.detach().transpose(1, 2) if transposed else weights.detach(), biases)


def _sum(pairs: Tensor) -> Tensor:
    """[n, chosen, hidden] -> [n, hidden], added one by one: a sum's order is the library's own affair."""
    total, *rest = pairs.unbind(1)
    for each in rest:
        total = total + each
    return total


def _fix_routers(parent: nn.Module) -> None:
    """Wrap what holds a matrix of its own beside experts."""
    for name, child in list(parent.named_children()):
        weight = dict(child.named_parameters(recurse=False)).get("weight")
        if weight is not None and weight.ndim == 2 and type(child) is not nn.Linear:  # noqa: PLR2004  # a matrix
            setattr(parent, name, FixedRows(child))


def _check_rest(model: nn.Module) -> None:
    for module in model.modules():
        if isinstance(module, CONVOLUTIONS):
            continue
        for name, parameter in module.named_parameters(recurse=False):
            if parameter.ndim == 3:  # noqa: PLR2004  # a matrix for each expert
                kind = type(module).__name__
                raise ModelUnsupported(f"{kind} keeps its experts in a way that is not run ({name})")
