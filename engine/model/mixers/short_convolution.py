"""LFM2's mixer: a convolution between two gates."""

from typing import Protocol, cast

from torch import Tensor, nn

from engine.model.mixers.taps import read_taps
from engine.model.recurrence import Recurrence


class _Module(Protocol):
    """What the module has."""

    layer_idx: int
    conv: nn.Conv1d
    in_proj: nn.Module
    out_proj: nn.Module


class ShortConvolutionMixer:
    """The forward of one module, over the spans of a step."""

    def __init__(self, module: nn.Module, recurrence: Recurrence) -> None:
        self._module = cast("_Module", module)
        self._recurrence = recurrence
        self._taps = read_taps(self._module.layer_idx, self._module.conv, None)

    def __call__(self, hidden_states: Tensor, **_: object) -> Tensor:
        """[1, rows, width] -> [1, rows, width]."""
        gate_in, gate_out, rows = self._module.in_proj(hidden_states)[0].chunk(3, dim=-1)
        convolved = self._taps.convolve(self._recurrence, gate_in * rows)
        out: Tensor = self._module.out_proj((gate_out * convolved).unsqueeze(0))
        return out
