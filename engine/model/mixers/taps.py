"""The convolution that a mixer begins with."""

from dataclasses import dataclass

from torch import Tensor, nn

from engine.errors import ModelUnsupported
from engine.model.recurrence import Recurrence

SILU = frozenset({"silu", "swish"})


@dataclass(frozen=True, slots=True)
class Taps:
    """A causal convolution of each channel by itself, of one layer."""

    layer: int
    weight: Tensor  # [taps, channels] float32
    bias: Tensor | None  # [channels] float32
    silu: bool

    def convolve(self, recurrence: Recurrence, rows: Tensor) -> Tensor:
        """[rows, channels] -> [rows, channels]."""
        return recurrence.convolve(self.layer, rows, self.weight, self.bias, silu=self.silu)


def read_taps(layer: int, conv: nn.Conv1d, activation: str | None) -> Taps:
    """The convolution of a module. Raises ModelUnsupported where what follows it is not known."""
    if activation is not None and activation not in SILU:
        raise ModelUnsupported(f"layer {layer} has {activation} behind its convolution, and only silu is run there")
    weight = constant(conv.weight[:, 0].t())
    return Taps(layer, weight, None if conv.bias is None else constant(conv.bias), activation is not None)


def constant(parameter: Tensor) -> Tensor:
    """A parameter as the scans take it."""
    return parameter.detach().float().contiguous()
