"""What `transformers` calls the tensors of a GGUF file, for the architectures whose parameters are those tensors.

llama.cpp's converter renames tensors, lets the rows of Llama's queries and keys take turns between the halves of a
head, and adds one to the norms of some families. Where it did more to a model, the architecture is not among these.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass

WHOLE = {"token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head"}
ATTENTION = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
}
HEAD_NORMS = {"attn_q_norm": "self_attn.q_norm", "attn_k_norm": "self_attn.k_norm"}
PLAIN_FEED = {"ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj"}
GATED_FEED = PLAIN_FEED | {"ffn_gate": "mlp.gate_proj"}
SANDWICH = {
    "post_attention_norm": "post_attention_layernorm",
    "ffn_norm": "pre_feedforward_layernorm",
    "post_ffw_norm": "post_feedforward_layernorm",
}
EXPERTS = {
    "ffn_gate_inp": "mlp.gate",
    "ffn_gate_exps": "mlp.experts.gate_up_proj",  # with the next one: two tensors, one parameter
    "ffn_up_exps": "mlp.experts.gate_up_proj",
    "ffn_down_exps": "mlp.experts.down_proj",
}
SHARED_EXPERT = {
    "ffn_gate_inp_shexp": "mlp.shared_expert_gate",
    "ffn_gate_shexp": "mlp.shared_expert.gate_proj",
    "ffn_up_shexp": "mlp.shared_expert.up_proj",
    "ffn_down_shexp": "mlp.shared_expert.down_proj",
}
NOT_PARAMETERS = re.compile(r"rope_freqs\.weight|rope_factors_(long|short)\.weight")
LAYER_TENSOR = re.compile(r"blk\.(\d+)\.(\w+)\.(weight|bias)")


@dataclass(frozen=True, slots=True)
class Family:
    """How an architecture's tensors differ from the parameters."""

    layer: dict[str, str]
    turned: bool = False  # rows of queries and keys take turns between the halves of a head
    norm_offset: float = 0.0  # what the file's norm weights have more


FAMILIES = {
    "llama": Family(ATTENTION | GATED_FEED, turned=True),
    "qwen2": Family(ATTENTION | GATED_FEED),
    "qwen3": Family(ATTENTION | HEAD_NORMS | GATED_FEED),
    "qwen2moe": Family(ATTENTION | EXPERTS | SHARED_EXPERT),
    "qwen3moe": Family(ATTENTION | HEAD_NORMS | EXPERTS),
    "phi3": Family(
        ATTENTION | {"attn_qkv": "self_attn.qkv_proj", "ffn_up": "mlp.gate_up_proj", "ffn_down": "mlp.down_proj"}
    ),
    "stablelm": Family(ATTENTION | GATED_FEED),
    "starcoder2": Family(ATTENTION | {"ffn_up": "mlp.c_fc", "ffn_down": "mlp.c_proj"}),
    "nemotron": Family(ATTENTION | PLAIN_FEED, norm_offset=1.0),
    "gemma2": Family(ATTENTION | SANDWICH | GATED_FEED, norm_offset=1.0),
    "gemma3": Family(ATTENTION | SANDWICH | HEAD_NORMS | GATED_FEED, norm_offset=1.0),
}


def name_parameters(architecture: str, tensors: Iterable[str]) -> dict[str, tuple[str, ...]] | None:
    """The tensors that each parameter consists of; None where one has no place in a model of `transformers`."""
    family = FAMILIES.get(architecture)
    if family is None:
        return None
    places: dict[str, tuple[str, ...]] = {}
    for tensor in sorted(tensors):  # so that gates come before ups
        if NOT_PARAMETERS.fullmatch(tensor):
            continue
        name = _name(family, tensor)
        if name is None:
            return None
        places[name] = (*places.get(name, ()), tensor)
    return places


def _name(family: Family, tensor: str) -> str | None:
    found = LAYER_TENSOR.fullmatch(tensor)
    if found is None:
        stem, _, suffix = tensor.rpartition(".")
        return f"{WHOLE[stem]}.{suffix}" if stem in WHOLE else None
    layer, stem, suffix = found.groups()
    if stem not in family.layer:
        return None
    name = f"model.layers.{layer}.{family.layer[stem]}"
    return name if stem.endswith("_exps") else f"{name}.{suffix}"
