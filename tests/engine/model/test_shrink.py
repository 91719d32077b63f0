from typing import Any

from transformers import (
    BambaConfig,
    DeepseekV2Config,
    DeepseekV3Config,
    Ernie4_5_MoeConfig,
    FalconH1Config,
    Gemma3nTextConfig,
    Gemma3TextConfig,
    JambaConfig,
    Lfm2Config,
    Lfm2MoeConfig,
    Llama4TextConfig,
    LlamaConfig,
    Mamba2Config,
    MambaConfig,
    MixtralConfig,
    Phi3Config,
    Qwen3NextConfig,
    SmolLM3Config,
)

from engine.model.shrink import CONTEXT, TRAINED_CONTEXT, WINDOW, shrink_config


def test_two_layers_are_enough_where_all_are_alike() -> None:
    assert shrink_config(LlamaConfig(num_hidden_layers=32)).num_hidden_layers == 2


def test_one_layer_of_each_type_is_kept() -> None:
    kinds = ["sliding_attention"] * 5 + ["full_attention"] + ["sliding_attention"] * 6
    small = shrink_config(Gemma3TextConfig(num_hidden_layers=12, layer_types=kinds))

    assert small.layer_types == ["sliding_attention", "sliding_attention", "full_attention"]
    assert small.num_hidden_layers == 3
    assert small.sliding_window == WINDOW


def test_lists_with_an_entry_a_layer_are_cut_to_the_layers_kept() -> None:
    small = shrink_config(SmolLM3Config(num_hidden_layers=8, no_rope_layers=[1, 0, 1, 1, 1, 1, 1, 1]))

    assert small.no_rope_layers == [1, 0]


def test_the_kind_of_head_sharing_stays() -> None:
    def shrunken(num_kv_heads: int) -> tuple[int, int]:
        small = shrink_config(LlamaConfig(num_attention_heads=32, num_key_value_heads=num_kv_heads))
        return small.num_attention_heads, small.num_key_value_heads

    assert [shrunken(32), shrunken(8), shrunken(1)] == [(4, 4), (4, 2), (4, 1)]


def test_rotary_factors_fit_the_small_heads_and_thresholds_the_small_context() -> None:
    parameters: dict[str, Any] = {
        "rope_type": "longrope",
        "rope_theta": 10_000.0,
        "short_factor": [1.0] * 48,
        "long_factor": [2.0] * 48,
        "original_max_position_embeddings": 4096,
        "factor": 32.0,
    }
    config = Phi3Config(rope_parameters=parameters, max_position_embeddings=131_072)
    small = shrink_config(config)

    assert small.max_position_embeddings == CONTEXT
    shrunken: dict[str, Any] = small.rope_parameters
    assert shrunken["original_max_position_embeddings"] == TRAINED_CONTEXT
    assert len(shrunken["long_factor"]) == small.hidden_size // small.num_attention_heads // 2
    assert len(parameters["long_factor"]) == 48


def test_layers_that_read_another_s_cache_are_kept_beside_those_they_read() -> None:
    small = shrink_config(Gemma3nTextConfig())
    own = len(small.layer_types) - small.num_kv_shared_layers

    assert small.num_kv_shared_layers == 2
    assert set(small.layer_types[:own]) == set(small.layer_types[own:]) == {"sliding_attention", "full_attention"}
    assert len(small.activation_sparsity_pattern) == len(small.intermediate_size) == small.num_hidden_layers


def test_layers_with_and_without_experts_are_kept() -> None:
    every_second = shrink_config(Llama4TextConfig(interleave_moe_layer_step=2))
    all_but_first = shrink_config(DeepseekV3Config())

    all_but_some = shrink_config(Lfm2MoeConfig(num_hidden_layers=4, num_dense_layers=2, layer_types=["conv"] * 4))
    all_but_more = shrink_config(Ernie4_5_MoeConfig(moe_layer_start_index=3))

    assert (every_second.num_hidden_layers, every_second.moe_layers) == (3, [1, 2])
    assert (all_but_first.num_hidden_layers, all_but_first.first_k_dense_replace) == (2, 1)
    assert (all_but_some.num_hidden_layers, all_but_some.num_dense_layers) == (2, 1)
    assert (all_but_more.num_hidden_layers, all_but_more.moe_layer_start_index) == (2, 1)


def test_few_experts_stay_in_as_many_groups() -> None:
    grouped, alone = shrink_config(DeepseekV3Config()), shrink_config(MixtralConfig(num_local_experts=4))
    greedy = shrink_config(DeepseekV2Config(num_experts_per_tok=6))

    assert (grouped.n_routed_experts, grouped.num_experts_per_tok, grouped.n_group, grouped.topk_group) == (8, 3, 4, 2)
    assert (alone.num_local_experts, alone.num_experts_per_tok) == (4, 2)
    assert (greedy.n_routed_experts, greedy.n_group) == (8, None)


def test_what_begins_at_a_position_begins_within_the_small_context() -> None:
    small = shrink_config(Llama4TextConfig())

    assert small.attention_chunk_size < CONTEXT
    assert small.floor_scale < CONTEXT


HEADS: dict[str, Any] = {"num_attention_heads": 16, "num_key_value_heads": 4}


def test_a_layer_of_each_kind_is_kept_where_a_period_or_a_list_of_numbers_says_which_is_what() -> None:
    jamba = shrink_config(JambaConfig(num_hidden_layers=16, attn_layer_period=8, attn_layer_offset=4))
    bamba = shrink_config(BambaConfig(num_hidden_layers=3, **HEADS, attn_layer_indices=[2]))
    short = shrink_config(Lfm2Config(num_hidden_layers=4, **HEADS, full_attn_idxs=[2]))

    assert jamba.layers_block_type == ["mamba", "mamba", "attention"]
    assert jamba.layers_num_experts == [1, 8, 1]
    assert bamba.layers_block_type == ["linear_attention", "linear_attention", "full_attention"]
    assert short.layer_types == ["conv", "conv", "full_attention"]


def test_the_sizes_of_mixers_fit_each_other() -> None:
    mamba, mamba2 = shrink_config(MambaConfig()), shrink_config(Mamba2Config())
    beside = shrink_config(FalconH1Config(mamba_d_ssm=None, mamba_n_heads=128))
    apart = shrink_config(FalconH1Config(mamba_d_ssm=1024, mamba_n_heads=32, mamba_n_groups=1))
    delta = shrink_config(Qwen3NextConfig())

    assert (mamba.hidden_size, mamba.intermediate_size, mamba.state_size) == (128, 256, 16)
    assert mamba2.num_heads * mamba2.head_dim == mamba2.expand * mamba2.hidden_size
    assert (mamba2.n_groups, mamba2.num_hidden_layers) == (2, 2)
    assert beside.mamba_n_heads * beside.mamba_d_head == beside.mamba_expand * beside.hidden_size
    assert apart.mamba_n_heads * apart.mamba_d_head == apart.mamba_d_ssm
    assert (apart.mamba_n_groups, apart.layers_block_type) == (1, ["hybrid", "hybrid"])
    assert (delta.linear_num_key_heads, delta.linear_num_value_heads, delta.linear_key_head_dim) == (2, 4, 32)
    assert delta.layer_types == ["linear_attention", "linear_attention", "full_attention"]
