"""The mixers of the gated delta rule: Qwen3-Next's, which projects by key head, and Qwen3.5's, which projects apart."""

from collections.abc import Callable
from typing import Protocol, cast

import torch
from torch import Tensor, nn

from engine.model.mixers.taps import constant, read_taps
from engine.model.recurrence import Recurrence
from engine.model.scans import Delta


class _Module(Protocol):
    """What both modules have."""

    layer_idx: int
    activation: str
    key_dim: int
    value_dim: int
    head_v_dim: int
    conv1d: nn.Conv1d
    out_proj: nn.Module
    norm: nn.Module
    A_log: Tensor
    dt_bias: Tensor


class _Fused(Protocol):
    """What Qwen3-Next's has besides."""

    in_proj_qkvz: nn.Module
    in_proj_ba: nn.Module
    fix_query_key_value_ordering: Callable[[Tensor, Tensor], tuple[Tensor, ...]]


class _Apart(Protocol):
    """What Qwen3.5's has besides."""

    in_proj_qkv: nn.Module
    in_proj_z: nn.Module
    in_proj_b: nn.Module
    in_proj_a: nn.Module


class GatedDeltaMixer:
    """The forward of one module, over the spans of a step."""

    def __init__(self, module: nn.Module, recurrence: Recurrence) -> None:
        self._module = cast("_Module", module)
        self._project = _project_fused if hasattr(module, "in_proj_qkvz") else _project_apart
        self._recurrence = recurrence
        self._layer = self._module.layer_idx
        self._taps = read_taps(self._layer, self._module.conv1d, self._module.activation)
        self._a = -torch.exp(constant(self._module.A_log))
        self._time_bias = constant(self._module.dt_bias)

    def __call__(self, hidden_states: Tensor, **_: object) -> Tensor:
        """[1, rows, width] -> [1, rows, width]."""
        module = self._module
        rows, gate, rate, time = self._project(module, hidden_states)
        convolved = self._taps.convolve(self._recurrence, rows)
        query, key, value = convolved.split([module.key_dim, module.key_dim, module.value_dim], dim=-1)
        delta = Delta(query, key, value, time, rate, self._a, self._time_bias)
        mixed = self._recurrence.apply_delta_rule(self._layer, delta).to(hidden_states.dtype)
        normed = module.norm(mixed.view(-1, module.head_v_dim), gate.reshape(-1, module.head_v_dim))
        out: Tensor = module.out_proj(normed.view(1, -1, module.value_dim))
        return out


def _project_fused(module: object, hidden_states: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Query, key and value side by side, the gate, the rate, the time, each [rows, …]."""
    fused = cast("_Fused", module)
    projected = fused.in_proj_qkvz(hidden_states), fused.in_proj_ba(hidden_states)
    query, key, value, gate, rate, time = fused.fix_query_key_value_ordering(*projected)
    rows = torch.cat([part[0].flatten(1) for part in (query, key, value)], dim=-1)
    return rows, gate[0].flatten(1), rate[0], time[0]


def _project_apart(module: object, hidden_states: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    apart = cast("_Apart", module)
    projections = (apart.in_proj_qkv, apart.in_proj_z, apart.in_proj_b, apart.in_proj_a)
    rows, gate, rate, time = (projection(hidden_states)[0] for projection in projections)
    return rows, gate, rate, time
