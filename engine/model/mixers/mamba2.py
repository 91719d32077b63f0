"""Mamba-2's mixer, and those of the hybrids that take it over: Falcon-H1, Bamba, Granite-4."""

from typing import Protocol, cast

import torch
from torch import Tensor, nn

from engine.model.mixers.taps import constant, read_taps
from engine.model.recurrence import Recurrence
from engine.model.scans import Selection


class _Module(Protocol):
    """What these modules have."""

    layer_idx: int
    activation: str
    intermediate_size: int
    conv_dim: int
    num_heads: int
    n_groups: int
    ssm_state_size: int
    time_step_limit: tuple[float, float]
    conv1d: nn.Conv1d
    in_proj: nn.Module
    out_proj: nn.Module
    norm: nn.Module
    A_log: Tensor
    D: Tensor
    dt_bias: Tensor


class Mamba2Mixer:
    """The forward of one module, over the spans of a step.

    Falcon-H1 scales what goes into the first projection and what comes out of it, and may gate without a norm.
    """

    def __init__(self, module: nn.Module, recurrence: Recurrence) -> None:
        self._module = cast("_Module", module)
        self._recurrence = recurrence
        self._layer = self._module.layer_idx
        self._taps = read_taps(self._layer, self._module.conv1d, self._module.activation)
        self._a = -torch.exp(constant(self._module.A_log))
        self._skip, self._time_bias = constant(self._module.D), constant(self._module.dt_bias)
        self._normed = not isinstance(self._module.norm, nn.Identity)
        self._scale_in: float | None = getattr(module, "ssm_in_multiplier", None)
        self._scale_out: Tensor | None = getattr(module, "mup_vector", None)

    def __call__(self, hidden_states: Tensor, **_: object) -> Tensor:
        """[1, rows, width] -> [1, rows, width]."""
        module = self._module
        widths = [module.intermediate_size, module.conv_dim, module.num_heads]
        gate, rows, time = self._project(hidden_states)[0].split(widths, dim=-1)
        shared = module.n_groups * module.ssm_state_size
        convolved = self._taps.convolve(self._recurrence, rows)
        x, b, c = convolved.split([module.intermediate_size, shared, shared], dim=-1)
        selection = Selection(
            x,
            time,
            b,
            c,
            None if self._normed else gate,
            self._a,
            self._skip,
            self._time_bias,
            module.n_groups,
            module.time_step_limit,
        )
        mixed = self._recurrence.select(self._layer, selection).unsqueeze(0)
        normed = module.norm(mixed, gate.unsqueeze(0).contiguous()) if self._normed else mixed
        out: Tensor = module.out_proj(normed.to(hidden_states.dtype))
        return out

    def _project(self, hidden_states: Tensor) -> Tensor:
        scaled = hidden_states if self._scale_in is None else hidden_states * self._scale_in
        projected: Tensor = self._module.in_proj(scaled)
        return projected if self._scale_out is None else projected * self._scale_out
