"""A config of the same structure as another, and small."""

import copy
from collections.abc import Sequence
from itertools import cycle, islice
from typing import Any

from transformers import PreTrainedConfig

from engine.model.shrink_mixers import shrink_mixers, shrink_periods

WINDOW = 24
CONTEXT = 320
TRAINED_CONTEXT = 64  # what a rotary scaling takes for the context that the model was trained on
SIZES = {
    "hidden_size": 128,
    "intermediate_size": 256,
    "intermediate_size_mlp": 256,
    "moe_intermediate_size": 128,
    "shared_expert_intermediate_size": 128,
    "shared_intermediate_size": 128,
    "vocab_size": 128,
    "max_position_embeddings": CONTEXT,
    "head_dim": 32,
    "rotary_dim": 32,
    "kv_lora_rank": 64,
    "q_lora_rank": 96,
    "qk_nope_head_dim": 32,
    "qk_rope_head_dim": 32,
    "qk_head_dim": 64,
    "v_head_dim": 64,
    "laurel_rank": 32,
    "sliding_window": WINDOW,
    "attention_chunk_size": WINDOW,
    "floor_scale": TRAINED_CONTEXT,  # positions after which the temperature of queries grows
    "initializer_range": 0.2,  # wide enough that a fault moves the logits
    "hidden_size_per_layer_input": 32,
    "vocab_size_per_layer_input": 128,
    "n_inner": 256,
    "ffn_dim": 256,
}
NUM_HEADS = 4
MAX_EXPERTS, MAX_GROUPS, MAX_CHOSEN = 8, 4, 3
EXPERT_FIELDS = ("num_local_experts", "num_experts", "n_routed_experts", "moe_num_experts")
NUMBERED = ("moe_layers", "mlp_only_layers", "attn_layer_indices", "full_attn_idxs")  # lists of layers
FIRST_DENSE = ("first_k_dense_replace", "num_dense_layers", "moe_layer_start_index")  # layers before those of experts
DERIVED = ("layer_types", "layers_num_experts")  # what may follow from other options
MAX_KINDS = 3  # different entries in a list with one a layer that says what kind each is


def shrink_config(config: PreTrainedConfig) -> PreTrainedConfig:
    """The same class and options with one layer of each kind, two at least, and sizes that run in no time.

    Widths are multiples of 32, so that no pointwise operator has leftovers in a row.
    """
    small = copy.deepcopy(config)
    _shrink_layers(small, config, _chosen_layers(config))
    _shrink_heads(small)
    _shrink_experts(small)
    for name, size in SIZES.items():
        if not _is_derived(small, name) and (value := getattr(small, name, None)) is not None:
            setattr(small, name, [size] * len(value) if isinstance(value, list) else size)
    shrink_mixers(small)
    small.pad_token_id = None
    for parameters in _rope_parameters(small):
        _shrink_rope(parameters, small)
    return small


def _chosen_layers(config: PreTrainedConfig) -> list[int]:
    """The first two layers, and the first of each kind that is not among them."""
    lists = [value for value in _layer_lists(config).values() if len(set(value)) <= MAX_KINDS]
    num_layers = config.num_hidden_layers
    first_reader = num_layers - (getattr(config, "num_kv_shared_layers", None) or 0)
    kinds = [(layer >= first_reader, *(value[layer] for value in lists)) for layer in range(num_layers)]
    return sorted({*range(min(2, num_layers)), *(kinds.index(kind) for kind in set(kinds))})


def _layer_lists(config: PreTrainedConfig) -> dict[str, list[Any]]:
    """The options that have an entry for each layer."""
    found = {name: getattr(config, name, None) for name in DERIVED} | config.to_dict()
    return {
        name: value
        for name, value in found.items()
        if name not in NUMBERED and isinstance(value, list) and len(value) == config.num_hidden_layers
    }


def _shrink_layers(small: PreTrainedConfig, config: PreTrainedConfig, layers: Sequence[int]) -> None:
    for name, value in _layer_lists(config).items():
        if not _is_derived(small, name):
            setattr(small, name, [value[layer] for layer in layers])
    for name in NUMBERED:
        if (numbers := getattr(config, name, None)) is not None:
            setattr(small, name, [index for index, layer in enumerate(layers) if layer in numbers])
    if shared := getattr(config, "num_kv_shared_layers", None):
        first_reader = config.num_hidden_layers - shared
        small.num_kv_shared_layers = sum(layer >= first_reader for layer in layers)
    for name in FIRST_DENSE:
        if dense := getattr(config, name, None):
            setattr(small, name, min(dense, 1))
    shrink_periods(small, config, layers)
    small.num_hidden_layers = len(layers)


def _is_derived(config: PreTrainedConfig, name: str) -> bool:
    """Whether an option follows from others, under this name or the one it stands for."""
    own_name = type(config).attribute_map.get(name, name)
    return isinstance(getattr(type(config), own_name, None), property)


def _shrink_experts(small: PreTrainedConfig) -> None:
    """As many groups of experts as before, few of them, and of few experts."""
    chosen = getattr(small, "num_experts_per_tok", None)
    field = next((name for name in EXPERT_FIELDS if getattr(small, name, None)), None)
    if not chosen or field is None:
        return
    groups = min(getattr(small, "n_group", None) or 1, MAX_GROUPS)
    count = min(getattr(small, field), groups * (MAX_EXPERTS // groups))
    setattr(small, field, count)
    small.num_experts_per_tok = min(chosen, MAX_CHOSEN)
    if getattr(small, "n_group", None):
        small.n_group, small.topk_group = groups, min(small.topk_group or 1, max(1, groups // 2))


def _shrink_heads(small: PreTrainedConfig) -> None:
    num_heads, num_kv_heads = getattr(small, "num_attention_heads", None), getattr(small, "num_key_value_heads", None)
    if num_heads is None:
        return  # every layer is recurrent
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
