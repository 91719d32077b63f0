"""Configs of tiny models whose layers, all or some, keep a state a sequence."""

from collections.abc import Callable
from typing import Any

from transformers import (
    BambaConfig,
    FalconH1Config,
    FalconMambaConfig,
    GraniteMoeHybridConfig,
    JambaConfig,
    Lfm2Config,
    Lfm2MoeConfig,
    Mamba2Config,
    MambaConfig,
    PreTrainedConfig,
    Qwen3_5MoeTextConfig,
    Qwen3_5TextConfig,
    Qwen3NextConfig,
)

from tests.models.architectures import MAX_CONTEXT, VOCABULARY_SIZE

_COMMON: dict[str, Any] = {
    "vocab_size": VOCABULARY_SIZE,
    "hidden_size": 64,
    "num_hidden_layers": 3,
    "initializer_range": 0.2,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "pad_token_id": 0,
}
_HYBRID: dict[str, Any] = _COMMON | {
    "intermediate_size": 128,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": MAX_CONTEXT,
}
_HEADS: dict[str, Any] = {"mamba_n_heads": 4, "mamba_d_head": 32, "mamba_d_state": 16, "mamba_n_groups": 2}
_EXPERTS: dict[str, Any] = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 32}
_DELTA: dict[str, Any] = {
    "head_dim": 32,
    "linear_num_key_heads": 2,
    "linear_num_value_heads": 4,
    "linear_key_head_dim": 16,
    "linear_value_head_dim": 32,
    "layer_types": ["linear_attention", "full_attention", "linear_attention"],
}

RECURRENT: dict[str, Callable[[], PreTrainedConfig]] = {
    "mamba": lambda: MambaConfig(**_COMMON, state_size=8),
    "falcon-mamba": lambda: FalconMambaConfig(**_COMMON, state_size=8),
    "mamba2": lambda: Mamba2Config(
        **_COMMON, num_heads=4, head_dim=32, state_size=16, n_groups=2, chunk_size=32, time_step_limit=(0.01, 1.0)
    ),
    "falcon-h1": lambda: FalconH1Config(
        **_HYBRID,
        **_HEADS,
        mamba_d_ssm=128,
        mamba_rms_norm=False,
        ssm_in_multiplier=0.7,
        ssm_out_multiplier=0.6,
        ssm_multipliers=[0.5, 1.1, 0.9, 1.3, 0.8],
        key_multiplier=0.9,
        lm_head_multiplier=1.5,
    ),
    "falcon-h1-normed": lambda: FalconH1Config(
        **_HYBRID, **_HEADS, mamba_d_ssm=128, mamba_rms_norm=True, mamba_norm_before_gate=False
    ),
    "bamba": lambda: BambaConfig(**_HYBRID, **_HEADS, attn_layer_indices=[1]),
    "granite-hybrid": lambda: GraniteMoeHybridConfig(
        **_HYBRID,
        **_HEADS,
        layer_types=["mamba", "attention", "mamba"],
        num_local_experts=0,
        shared_intermediate_size=64,
        residual_multiplier=0.7,
        logits_scaling=2.0,
    ),
    "granite-hybrid-experts": lambda: GraniteMoeHybridConfig(
        **_HYBRID,
        **_HEADS,
        layer_types=["mamba", "attention", "mamba"],
        num_local_experts=4,
        num_experts_per_tok=2,
        shared_intermediate_size=64,
    ),
    "jamba": lambda: JambaConfig(
        **_HYBRID, num_experts=1, attn_layer_period=2, attn_layer_offset=1, mamba_d_state=8, mamba_dt_rank=16
    ),
    "jamba-experts": lambda: JambaConfig(
        **_HYBRID, num_experts=4, attn_layer_period=2, attn_layer_offset=1, mamba_d_state=16, mamba_dt_rank=32
    ),
    "qwen3-next": lambda: Qwen3NextConfig(**_HYBRID, **_DELTA, mlp_only_layers=[0, 1, 2]),
    "qwen3-next-experts": lambda: Qwen3NextConfig(**_HYBRID, **_DELTA, **_EXPERTS, shared_expert_intermediate_size=32),
    "qwen3.5": lambda: Qwen3_5TextConfig(**_HYBRID, **_DELTA),
    "qwen3.5-experts": lambda: Qwen3_5MoeTextConfig(
        **_HYBRID, **_DELTA, **_EXPERTS, shared_expert_intermediate_size=32
    ),
    "lfm2": lambda: Lfm2Config(**_HYBRID, layer_types=["conv", "full_attention", "conv"]),
    "lfm2-experts": lambda: Lfm2MoeConfig(
        **_HYBRID,
        layer_types=["conv", "full_attention", "conv"],
        num_dense_layers=1,
        **_EXPERTS,
        use_expert_bias=True,
        routed_scaling_factor=1.5,
    ),
}
