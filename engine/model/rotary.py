"""Rotary frequencies that `transformers` would choose anew for each batch, fixed at load."""

from torch import nn
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

from engine.errors import ModelUnsupported

FIXED = "default"  # the type that the modules' own forward leaves alone


def freeze_rotary(model: nn.Module, context_length: int) -> None:
    """Fix the frequencies that depend on the longest position of a batch to those of the served context.

    `longrope` takes its long factors where the context is longer than the one trained on. `dynamic` only
    changes beyond the model's own context, which is never served. Raises ModelUnsupported where the types
    differ by layer.
    """
    for module in model.modules():
        rope_type = getattr(module, "rope_type", None)
        if isinstance(rope_type, dict) and any(_varies(value) for value in rope_type.values()):
            raise ModelUnsupported(f"{type(module).__name__} mixes rotary types that vary with the batch: {rope_type}")
        if isinstance(rope_type, str) and _varies(rope_type):
            _fix(module, rope_type, context_length)


def _varies(rope_type: object) -> bool:
    return isinstance(rope_type, str) and (rope_type == "longrope" or "dynamic" in rope_type)


def _fix(module: nn.Module, rope_type: str, context_length: int) -> None:
    if rope_type == "longrope":
        buffer = module.get_buffer("inv_freq")
        frequencies, _ = ROPE_INIT_FUNCTIONS[rope_type](module.config, buffer.device, seq_len=context_length)
        buffer.copy_(frequencies)
    setattr(module, "rope_type", FIXED)  # noqa: B010  # a plain attribute, which nn.Module types as a module
