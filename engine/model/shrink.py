"""A config of the same structure as another, and small."""

import copy
from itertools import cycle, islice
from typing import Any

from transformers import PreTrainedConfig

WINDOW = 24
CONTEXT = 320
TRAINED_CONTEXT = 64  # what a rotary scaling takes for the context that the model was trained on
SIZES = {
    "hidden_size": 128,
    "intermediate_size": 256,
    "moe_intermediate_size": 128,
    "vocab_size": 128,
    "max_position_embeddings": CONTEXT,
    "head_dim": 32,
    "rotary_dim": 32,
    "sliding_window": WINDOW,
    "initializer_range": 0.2,  # wide enough that a fault moves the logits
    "hidden_size_per_layer_input": 32,
    "vocab_size_per_layer_input": 128,
    "n_inner": 256,
    "ffn_dim": 256,
}
NUM_HEADS = 4


def shrink_config(config: PreTrainedConfig) -> PreTrainedConfig:
    """The same class and options with one layer of each type, two at least, and sizes that run in no time.

    Widths are multiples of 32, so that no pointwise operator has leftovers in a row.
    """
    small = copy.deepcopy(config)
    layers = _chosen_layers(config)
    for name, value in config.to_dict().items():
        if isinstance(value, list) and len(value) == config.num_hidden_layers > len(layers):
            setattr(small, name, [value[layer] for layer in layers])
    small.num_hidden_layers = len(layers)
    _shrink_heads(small)
    for name, size in SIZES.items():
        derived = isinstance(getattr(type(small), name, None), property)
        if not derived and getattr(small, name, None) is not None:
            setattr(small, name, size)
    small.pad_token_id = None
    for parameters in _rope_parameters(small):
        _shrink_rope(parameters, small)
    return small


def _chosen_layers(config: PreTrainedConfig) -> list[int]:
    """The first two layers, and the first of each type that is not among them."""
    types: list[str] = getattr(config, "layer_types", None) or []
    firsts = {types.index(kind) for kind in types}
    return sorted({*range(min(2, config.num_hidden_layers)), *firsts})


def _shrink_heads(small: PreTrainedConfig) -> None:
    num_heads, num_kv_heads = small.num_attention_heads, getattr(small, "num_key_value_heads", None)
    small.num_attention_heads = NUM_HEADS
    if num_kv_heads is not None:
        small.num_key_value_heads = NUM_HEADS if num_kv_heads == num_heads else min(num_kv_heads, NUM_HEADS // 2)


def _rope_parameters(small: PreTrainedConfig) -> list[dict[str, Any]]:
    """The rotary parameters: one set for all layers, or one for each type of layer."""
    found = getattr(small, "rope_parameters", None) or {}
    return [found] if "rope_type" in found else [each for each in found.values() if isinstance(each, dict)]


def _shrink_rope(parameters: dict[str, Any], small: PreTrainedConfig) -> None:
    if "original_max_position_embeddings" in parameters:
        parameters["original_max_position_embeddings"] = TRAINED_CONTEXT
    head_dim = getattr(small, "head_dim", None) or small.hidden_size // small.num_attention_heads
    num_frequencies = int(head_dim * parameters.get("partial_rotary_factor", 1.0)) // 2
    for name in ("short_factor", "long_factor"):
        if name in parameters:
            parameters[name] = list(islice(cycle(parameters[name]), num_frequencies))
