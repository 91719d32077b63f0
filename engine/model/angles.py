"""The cosines and sines that a model's rotary module gives, for every position, as tables."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from transformers import PreTrainedConfig

from engine.errors import ModelUnsupported
from engine.model.kernels.native import Rotary
from engine.model.rotary import freeze_rotary
from engine.model.structure import RotaryData


@dataclass(frozen=True, slots=True)
class Angles:
    """Cosines and sines, each [positions, pairs] float32."""

    cos: Tensor
    sin: Tensor


def find_rotary(model: nn.Module) -> type[nn.Module] | None:
    """The class of the module that computes a model's angles."""
    found = {type(module) for module in model.modules() if hasattr(module, "rope_type")}
    return found.pop() if len(found) == 1 else None


def make_angles(
    rotary: type[nn.Module],
    config: PreTrainedConfig,
    data: RotaryData,
    *,
    context_length: int,
    num_positions: int | None = None,
) -> Angles:
    """The angles of all positions of the served context, as the module itself computes them.

    `num_positions` are all that there is room for, where the context may be longer.
    """
    module = rotary(config=config)
    freeze_rotary(module, context_length)
    positions = torch.arange(min(context_length, num_positions or context_length))[None]
    options = {} if data.layer_type is None else {"layer_type": data.layer_type}
    with torch.inference_mode():
        cos, sin = module(torch.empty(0), positions, **options)
    return Angles(_one_a_pair(cos[0], data), _one_a_pair(sin[0], data))


def _one_a_pair(table: Tensor, data: RotaryData) -> Tensor:
    """Modules repeat each angle for both values of its pair: side by side, or half a head apart."""
    pairs = data.dim // 2
    if table.shape[-1] == pairs:
        return table.float().contiguous()
    if table.shape[-1] != 2 * pairs:
        raise ModelUnsupported(f"the rotary module gives {table.shape[-1]} angles for {data.dim} values of a head")
    once = table[:, ::2] if data.style is Rotary.INTERLEAVED else table[:, :pairs]
    return once.float().contiguous()
