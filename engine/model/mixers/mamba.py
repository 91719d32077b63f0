"""Mamba's mixer, and Falcon-Mamba's and Jamba's, which norm what is selected by."""

from typing import Protocol, cast

import torch
from torch import Tensor, nn

from engine.model.mixers.taps import constant, read_taps
from engine.model.recurrence import Recurrence
from engine.model.scans import Selection


class _Module(Protocol):
    """What these modules have. The norms are missing in Mamba's."""

    layer_idx: int
    activation: str
    time_step_rank: int
    ssm_state_size: int
    conv1d: nn.Conv1d
    in_proj: nn.Module
    x_proj: nn.Module
    dt_proj: nn.Module
    out_proj: nn.Module
    A_log: Tensor
    D: Tensor


class MambaMixer:
    """The forward of one module, over the spans of a step."""

    def __init__(self, module: nn.Module, recurrence: Recurrence) -> None:
        self._module = cast("_Module", module)
        self._norms = [getattr(module, name, nn.Identity()) for name in ("dt_layernorm", "b_layernorm", "c_layernorm")]
        self._recurrence = recurrence
        self._layer = self._module.layer_idx
        self._taps = read_taps(self._layer, self._module.conv1d, self._module.activation)
        heads, states, dim = recurrence.shape(self._layer)
        self._a = -torch.exp(constant(self._module.A_log.view(heads, dim, states).transpose(1, 2)))
        self._skip = constant(self._module.D)

    def __call__(self, hidden_states: Tensor, **_: object) -> Tensor:
        """[1, rows, width] -> [1, rows, width]."""
        module = self._module
        rows, gate = module.in_proj(hidden_states)[0].chunk(2, dim=-1)
        x = self._taps.convolve(self._recurrence, rows)
        widths = [module.time_step_rank, module.ssm_state_size, module.ssm_state_size]
        parts = module.x_proj(x.unsqueeze(0)).split(widths, dim=-1)
        time, b, c = (norm(part.contiguous()) for norm, part in zip(self._norms, parts, strict=True))
        time = module.dt_proj(time)
        selection = Selection(
            x, time[0], b[0], c[0], gate, self._a, self._skip, time_bias=None, groups=1, limits=(0.0, torch.inf)
        )
        mixed = self._recurrence.select(self._layer, selection)
        out: Tensor = module.out_proj(mixed.to(hidden_states.dtype).unsqueeze(0))
        return out
