"""Tiny random models of real architectures, and plain `transformers` as what they are compared to."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from transformers import (
    AutoModelForCausalLM,
    Cohere2Config,
    CohereConfig,
    DeepseekV2Config,
    DeepseekV3Config,
    Gemma2Config,
    Gemma3nTextConfig,
    Gemma3TextConfig,
    GemmaConfig,
    Glm4Config,
    Glm4MoeLiteConfig,
    GPT2Config,
    GPTNeoXConfig,
    GptOssConfig,
    GraniteConfig,
    GraniteMoeConfig,
    Llama4TextConfig,
    LlamaConfig,
    MiniCPM3Config,
    MistralConfig,
    MixtralConfig,
    Olmo2Config,
    OlmoeConfig,
    Phi3Config,
    PhiConfig,
    PhimoeConfig,
    PreTrainedConfig,
    PreTrainedModel,
    Qwen2Config,
    Qwen2MoeConfig,
    Qwen3Config,
    Qwen3MoeConfig,
    SmolLM3Config,
    StableLmConfig,
    Starcoder2Config,
    YoutuConfig,
)

from engine.model.rotary import freeze_rotary

VOCABULARY_SIZE = 96
MAX_CONTEXT = 512
_COMMON: dict[str, Any] = {
    "vocab_size": VOCABULARY_SIZE,
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": MAX_CONTEXT,
    "initializer_range": 0.2,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "pad_token_id": 0,
}
_HEAD: dict[str, Any] = {"head_dim": 32}
_ODD: dict[str, Any] = {
    "vocab_size": 97,
    "hidden_size": 72,
    "intermediate_size": 100,
    "num_attention_heads": 3,
    "num_key_value_heads": 1,
}
_WINDOW = 24
_LONGROPE = {
    "rope_type": "longrope",
    "rope_theta": 10_000.0,
    "short_factor": [1.0] * 8,
    "long_factor": [4.0] * 8,
}
_YARN = {"rope_type": "yarn", "rope_theta": 10_000.0, "factor": 4.0, "original_max_position_embeddings": 64}


def _without(field: str) -> dict[str, Any]:
    return {name: value for name, value in _COMMON.items() if name != field}


ARCHITECTURES: dict[str, Callable[[], PreTrainedConfig]] = {
    "llama": lambda: LlamaConfig(**_COMMON),
    "llama-mha": lambda: LlamaConfig(**(_COMMON | {"num_key_value_heads": 4})),
    "llama-mqa": lambda: LlamaConfig(**(_COMMON | {"num_key_value_heads": 1})),
    "qwen2": lambda: Qwen2Config(**_COMMON),
    "qwen2-window": lambda: Qwen2Config(
        **_COMMON, use_sliding_window=True, sliding_window=_WINDOW, max_window_layers=1
    ),
    "qwen3": lambda: Qwen3Config(**_COMMON, **_HEAD),
    "mistral": lambda: MistralConfig(**_COMMON, sliding_window=None),
    "mistral-window": lambda: MistralConfig(**_COMMON, sliding_window=_WINDOW),
    "phi3": lambda: Phi3Config(**_COMMON),
    "phi3-window": lambda: Phi3Config(**_COMMON, sliding_window=_WINDOW),
    "phi3-longrope": lambda: Phi3Config(
        **_COMMON, rope_parameters=dict(_LONGROPE), original_max_position_embeddings=64
    ),
    "olmo2": lambda: Olmo2Config(**_COMMON),
    "granite": lambda: GraniteConfig(
        **_COMMON, embedding_multiplier=3.0, residual_multiplier=0.5, attention_multiplier=0.3, logits_scaling=2.0
    ),
    "gpt-neox": lambda: GPTNeoXConfig(
        **_without("num_key_value_heads"),
        rope_parameters={"rope_type": "default", "rope_theta": 10_000.0, "partial_rotary_factor": 0.5},
    ),
    "gpt2": lambda: GPT2Config(
        vocab_size=VOCABULARY_SIZE,
        n_embd=64,
        n_layer=2,
        n_head=4,
        n_positions=MAX_CONTEXT,
        initializer_range=0.2,
        bos_token_id=1,
        eos_token_id=2,
    ),
    "stablelm": lambda: StableLmConfig(**_COMMON),
    "smollm3": lambda: SmolLM3Config(**_COMMON, no_rope_layers=[1, 0]),
    "gemma": lambda: GemmaConfig(**_COMMON, **_HEAD),
    "gemma2": lambda: Gemma2Config(**_COMMON, **_HEAD, sliding_window=_WINDOW, attn_logit_softcapping=5.0),
    "gemma3": lambda: Gemma3TextConfig(
        **_COMMON, **_HEAD, sliding_window=_WINDOW, layer_types=["sliding_attention", "full_attention"]
    ),
    "cohere2": lambda: Cohere2Config(
        **_COMMON, sliding_window=_WINDOW, layer_types=["sliding_attention", "full_attention"]
    ),
}

# What the native paths must bear besides: options, and widths that are no multiples of anything.
VARIANTS: dict[str, Callable[[], PreTrainedConfig]] = {
    "llama-biases": lambda: LlamaConfig(**_COMMON, attention_bias=True, mlp_bias=True, tie_word_embeddings=True),
    "llama-yarn": lambda: LlamaConfig(**_COMMON, rope_parameters=dict(_YARN)),
    "llama-odd": lambda: LlamaConfig(**(_COMMON | _ODD)),
    "gpt-neox-serial": lambda: GPTNeoXConfig(**_without("num_key_value_heads"), use_parallel_residual=False),
    "cohere": lambda: CohereConfig(**_COMMON, use_qk_norm=False),
    "stablelm-parallel": lambda: StableLmConfig(**_COMMON, use_parallel_residual=True, use_qkv_bias=True),
    "gemma2-capped": lambda: Gemma2Config(**_COMMON, **_HEAD, final_logit_softcapping=0.7),
}
_LATENT: dict[str, Any] = _COMMON | {
    "num_key_value_heads": 4,
    "q_lora_rank": 48,
    "kv_lora_rank": 64,
    "qk_nope_head_dim": 32,
    "qk_rope_head_dim": 16,
    "v_head_dim": 20,
}
_ROUTED: dict[str, Any] = {
    "n_routed_experts": 8,
    "num_experts_per_tok": 3,
    "moe_intermediate_size": 32,
    "first_k_dense_replace": 1,
    "n_shared_experts": 1,
}
_LLAMA4: dict[str, Any] = _COMMON | {
    "head_dim": 32,
    "intermediate_size_mlp": 96,
    "num_local_experts": 4,
    "no_rope_layers": [1, 0],
    "attention_chunk_size": 24,
    "floor_scale": 16,
    "attn_scale": 0.5,
}
_GEMMA3N: dict[str, Any] = _COMMON | {
    "head_dim": 32,
    "num_hidden_layers": 6,
    "layer_types": ["sliding_attention", "full_attention"] * 3,
    "num_kv_shared_layers": 2,
    "sliding_window": _WINDOW,
    "laurel_rank": 16,
    "hidden_size_per_layer_input": 16,
    "vocab_size_per_layer_input": VOCABULARY_SIZE,
    "activation_sparsity_pattern": [0.9, 0.9, 0.0, 0.0, 0.0, 0.0],
}
# Not described: they run as modules of `transformers`.
OTHERS: dict[str, Callable[[], PreTrainedConfig]] = {
    "qwen2-moe": lambda: Qwen2MoeConfig(
        **_COMMON, num_experts=6, num_experts_per_tok=2, moe_intermediate_size=32, shared_expert_intermediate_size=64
    ),
    "granite-moe": lambda: GraniteMoeConfig(**_COMMON, num_local_experts=4, num_experts_per_tok=2),
    "phimoe": lambda: PhimoeConfig(**_COMMON, num_local_experts=4, num_experts_per_tok=2),
    "deepseek-v2": lambda: DeepseekV2Config(
        **_LATENT, **_ROUTED, topk_method="group_limited_greedy", n_group=4, topk_group=2
    ),
    "deepseek-v2-lite": lambda: DeepseekV2Config(
        **(_LATENT | {"q_lora_rank": None}), **_ROUTED, topk_method="greedy", rope_parameters=dict(_YARN)
    ),
    "deepseek-v3": lambda: DeepseekV3Config(
        **_LATENT, **_ROUTED, n_group=4, topk_group=2, rope_parameters=_YARN | {"mscale": 1.0, "mscale_all_dim": 0.7}
    ),
    "minicpm3": lambda: MiniCPM3Config(**_LATENT),
    "youtu": lambda: YoutuConfig(**_LATENT),
    "glm4-moe-lite": lambda: Glm4MoeLiteConfig(**_LATENT, **_ROUTED, n_group=1, topk_group=1),
    "llama4": lambda: Llama4TextConfig(**_LLAMA4, interleave_moe_layer_step=2),
    "llama4-experts": lambda: Llama4TextConfig(**_LLAMA4, num_experts_per_tok=2),
    "gemma3n": lambda: Gemma3nTextConfig(**_GEMMA3N),
    "starcoder2": lambda: Starcoder2Config(**_COMMON),
    "glm4": lambda: Glm4Config(**_COMMON, **_HEAD),
    "phi": lambda: PhiConfig(**_COMMON),
    "stablelm-normed": lambda: StableLmConfig(**_COMMON, qk_layernorm=True),
}
EXPERTS: dict[str, Callable[[], PreTrainedConfig]] = {
    "mixtral": lambda: MixtralConfig(**_COMMON, num_local_experts=4, num_experts_per_tok=2),
    "qwen3-moe": lambda: Qwen3MoeConfig(
        **_COMMON, **_HEAD, num_experts=8, num_experts_per_tok=3, moe_intermediate_size=32, norm_topk_prob=True
    ),
    "olmoe": lambda: OlmoeConfig(**_COMMON, num_experts=8, num_experts_per_tok=2),
    "gpt-oss": lambda: GptOssConfig(
        **_COMMON,
        **_HEAD,
        num_local_experts=4,
        num_experts_per_tok=2,
        sliding_window=_WINDOW,
        layer_types=["sliding_attention", "full_attention"],
    ),
}


def make_model(config: PreTrainedConfig, *, seed: int = 0) -> PreTrainedModel:
    """A random float32 model of the config's class, its angles those of the whole context.

    Random in all that is stored: what begins as zeros or ones would hide what it does.
    """
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        torch.manual_seed(seed)
        model = AutoModelForCausalLM.from_config(config)
        assert isinstance(model, PreTrainedModel)
        for stored in model.state_dict().values():
            if stored.ndim == 1:
                stored.add_(torch.randn_like(stored), alpha=0.1)
    freeze_rotary(model, MAX_CONTEXT)
    model.eval()
    return model


def plain_logits(model: PreTrainedModel, tokens: Sequence[int]) -> Tensor:
    """All logits [tokens, vocabulary] of one sequence, through plain eager attention."""
    model.set_attn_implementation("eager")
    with torch.inference_mode():
        logits: Tensor = model(input_ids=torch.tensor([list(tokens)]), use_cache=False).logits[0]
    return logits
