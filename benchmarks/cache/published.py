"""Configs of published models, one or two of each kind of cache; their vocabularies and such are left at any value."""

from typing import Any

from transformers import (
    DeepseekV2Config,
    FalconH1Config,
    Gemma3nTextConfig,
    Gemma3TextConfig,
    GptOssConfig,
    Lfm2Config,
    Llama4TextConfig,
    LlamaConfig,
    Mamba2Config,
    PreTrainedConfig,
    Qwen3NextConfig,
)

_NARROW_HEADS: dict[str, Any] = {"head_dim": 64}  # a field that its class does not declare, and its layers read


def published() -> dict[str, PreTrainedConfig]:
    """By name."""
    return {
        "SmolLM2 135M": LlamaConfig(
            hidden_size=576, num_hidden_layers=30, num_attention_heads=9, num_key_value_heads=3
        ),
        "Gemma 3 1B": Gemma3TextConfig(
            hidden_size=1152,
            num_hidden_layers=26,
            num_attention_heads=4,
            num_key_value_heads=1,
            head_dim=256,
            sliding_window=512,
        ),
        "GPT-OSS 20B": GptOssConfig(
            hidden_size=2880,
            num_hidden_layers=24,
            num_attention_heads=64,
            num_key_value_heads=8,
            head_dim=64,
            sliding_window=128,
        ),
        "Llama 4 Scout": Llama4TextConfig(
            hidden_size=5120,
            num_hidden_layers=48,
            num_attention_heads=40,
            num_key_value_heads=8,
            head_dim=128,
            attention_chunk_size=8192,
        ),
        "Gemma 3n E2B": Gemma3nTextConfig(
            hidden_size=2048,
            intermediate_size=8192,
            num_hidden_layers=30,
            num_attention_heads=8,
            num_key_value_heads=2,
            head_dim=256,
            sliding_window=512,
            layer_types=[*["sliding_attention"] * 4, "full_attention"] * 6,
            num_kv_shared_layers=10,
            activation_sparsity_pattern=[0.95] * 10 + [0.0] * 20,
        ),
        "DeepSeek-V2-Lite": DeepseekV2Config(
            hidden_size=2048,
            num_hidden_layers=27,
            num_attention_heads=16,
            q_lora_rank=None,
            kv_lora_rank=512,
            qk_nope_head_dim=128,
            qk_rope_head_dim=64,
            v_head_dim=128,
        ),
        "LFM2 350M": Lfm2Config(
            hidden_size=1024,
            num_hidden_layers=16,
            num_attention_heads=16,
            num_key_value_heads=8,
            conv_L_cache=3,
            full_attn_idxs=[2, 5, 8, 10, 12, 14],
        ),
        "Falcon-H1 0.5B": FalconH1Config(
            hidden_size=1024,
            num_hidden_layers=36,
            num_attention_heads=8,
            num_key_value_heads=2,
            mamba_d_ssm=1536,
            mamba_n_heads=24,
            mamba_d_head=64,
            mamba_d_state=128,
            mamba_n_groups=1,
            mamba_d_conv=4,
            **_NARROW_HEADS,
        ),
        "Qwen3-Next 80B": Qwen3NextConfig(
            hidden_size=2048,
            num_hidden_layers=48,
            num_attention_heads=16,
            num_key_value_heads=2,
            head_dim=256,
            linear_num_key_heads=16,
            linear_num_value_heads=32,
            linear_key_head_dim=128,
            linear_value_head_dim=128,
            linear_conv_kernel_dim=4,
        ),
        "Mamba-2 130M": Mamba2Config(
            hidden_size=768, num_hidden_layers=24, num_heads=24, head_dim=64, state_size=128, n_groups=1, conv_kernel=4
        ),
    }
