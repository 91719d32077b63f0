"""Puts our mixers in the place of a model's own, whose states know no packed rows."""

from collections.abc import Callable

from torch import Tensor, nn

from engine.errors import ModelUnsupported
from engine.model.mixers.gated_delta import GatedDeltaMixer
from engine.model.mixers.mamba import MambaMixer
from engine.model.mixers.mamba2 import Mamba2Mixer
from engine.model.mixers.short_convolution import ShortConvolutionMixer
from engine.model.recurrence import Recurrence

MIXERS: dict[str, Callable[[nn.Module, Recurrence], Callable[..., Tensor]]] = {
    "MambaMixer": MambaMixer,
    "FalconMambaMixer": MambaMixer,
    "JambaMambaMixer": MambaMixer,
    "Mamba2Mixer": Mamba2Mixer,
    "FalconH1Mixer": Mamba2Mixer,
    "BambaMixer": Mamba2Mixer,
    "GraniteMoeHybridMambaLayer": Mamba2Mixer,
    "Qwen3NextGatedDeltaNet": GatedDeltaMixer,
    "Qwen3_5GatedDeltaNet": GatedDeltaMixer,
    "Qwen3_5MoeGatedDeltaNet": GatedDeltaMixer,
    "Lfm2ShortConv": ShortConvolutionMixer,
    "Lfm2MoeShortConv": ShortConvolutionMixer,
}
NORMS = ("b_layernorm", "c_layernorm")


def normed_widths(model: nn.Module) -> set[int]:
    """The widths of what mixers norm and no linear layer has, so that batches can be padded for them."""
    norms = [norm for module in model.modules() for name in NORMS if (norm := getattr(module, name, None)) is not None]
    return {int(norm.weight.shape[0]) for norm in norms}


def attach_mixers(model: nn.Module, recurrence: Recurrence) -> None:
    """Let each recurrent module of a model compute over our states; its parameters stay where they are.

    What a mixer makes of its module's small parameters is made here, so these must have their final type. Raises
    ModelUnsupported unless the modules are those of the layers that keep states.
    """
    found = [module for module in model.modules() if type(module).__name__ in MIXERS]
    layers = sorted(int(module.layer_idx) for module in found)  # type: ignore[arg-type]  # typed as a tensor or module
    if layers != sorted(recurrence.calls):
        raise ModelUnsupported(
            f"layers {sorted(recurrence.calls)} keep states, and layers {layers} have mixers that are known"
        )
    for module in found:
        module.forward = MIXERS[type(module).__name__](module, recurrence)
