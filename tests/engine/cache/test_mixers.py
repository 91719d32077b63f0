from types import SimpleNamespace
from typing import Any

import pytest
from transformers import (
    BambaConfig,
    FalconH1Config,
    GraniteMoeHybridConfig,
    JambaConfig,
    Lfm2Config,
    LlamaConfig,
    Mamba2Config,
    MambaConfig,
    PreTrainedConfig,
    Qwen3NextConfig,
)

from engine.cache.mixers import check_kinds, read_states
from engine.cache.reading import read_layout
from engine.errors import ModelUnsupported

SMALL: dict[str, Any] = {"hidden_size": 64, "num_hidden_layers": 3}
HEADS: dict[str, Any] = {"num_attention_heads": 4, "num_key_value_heads": 2}
MAMBA2: dict[str, Any] = {"mamba_n_heads": 4, "mamba_d_head": 32, "mamba_d_state": 16, "mamba_n_groups": 2}


def shapes(config: PreTrainedConfig) -> list[tuple[str, tuple[int, ...], tuple[tuple[int, ...], ...]]]:
    return [(group.kind, group.layers, tuple(array.shape for array in group.arrays)) for group in read_states(config)]


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        (LlamaConfig(**SMALL, **HEADS), []),
        (MambaConfig(**SMALL, state_size=8), [("Mamba", (0, 1, 2), ((3, 128), (8, 8, 16)))]),
        (MambaConfig(hidden_size=20, num_hidden_layers=1, state_size=8), [("Mamba", (0,), ((3, 40), (5, 8, 8)))]),
        (
            Mamba2Config(**SMALL, num_heads=4, head_dim=32, state_size=16, n_groups=2),
            [("Mamba-2", (0, 1, 2), ((3, 192), (4, 16, 32)))],
        ),
        (
            JambaConfig(**SMALL, **HEADS, attn_layer_period=2, attn_layer_offset=1, mamba_d_state=8, mamba_d_conv=3),
            [("Mamba", (0, 2), ((2, 128), (8, 8, 16)))],
        ),
        (
            FalconH1Config(**SMALL, **HEADS, **MAMBA2, mamba_d_ssm=128),
            [("Mamba-2", (0, 1, 2), ((3, 192), (4, 16, 32)))],
        ),
        (
            BambaConfig(**SMALL, **HEADS, **MAMBA2, attn_layer_indices=[0]),
            [("Mamba-2", (1, 2), ((3, 192), (4, 16, 32)))],
        ),
        (
            GraniteMoeHybridConfig(**SMALL, **HEADS, **MAMBA2, layer_types=["mamba", "attention", "mamba"]),
            [("Mamba-2", (0, 2), ((3, 192), (4, 16, 32)))],
        ),
        (
            Qwen3NextConfig(
                **SMALL,
                **HEADS,
                layer_types=["linear_attention", "full_attention", "linear_attention"],
                linear_num_key_heads=2,
                linear_num_value_heads=4,
                linear_key_head_dim=16,
                linear_value_head_dim=32,
            ),
            [("gated delta", (0, 2), ((3, 192), (4, 16, 32)))],
        ),
        (
            Lfm2Config(**SMALL, **HEADS, layer_types=["conv", "full_attention", "conv"]),
            [("short convolution", (0, 2), ((2, 64),))],
        ),
    ],
    ids=lambda value: value.model_type if isinstance(value, PreTrainedConfig) else "",
)
def test_what_a_sequence_s_state_is_follows_from_the_config(
    config: PreTrainedConfig, expected: list[tuple[str, tuple[int, ...], tuple[tuple[int, ...], ...]]]
) -> None:
    assert shapes(config) == expected


@pytest.mark.parametrize(
    ("config", "layers"),
    [
        (MambaConfig(**SMALL), []),
        (Mamba2Config(**SMALL, num_heads=4, head_dim=32, n_groups=2), []),
        (FalconH1Config(**SMALL, **HEADS, **MAMBA2, mamba_d_ssm=128), [(0, 1, 2)]),
        (BambaConfig(**SMALL, **HEADS, **MAMBA2, attn_layer_indices=[0]), [(0,)]),
        (JambaConfig(**SMALL, **HEADS, attn_layer_period=2, attn_layer_offset=1), [(1,)]),
        (Lfm2Config(**SMALL, **HEADS, layer_types=["conv", "full_attention", "conv"]), [(1,)]),
    ],
    ids=lambda value: value.model_type if isinstance(value, PreTrainedConfig) else "",
)
def test_rows_are_kept_where_there_is_attention_alone_or_beside(
    config: PreTrainedConfig, layers: list[tuple[int, ...]]
) -> None:
    assert [group.layers for group in read_layout(config, "float32", in_lanes=False).groups] == layers


def test_a_recurrent_layer_of_an_unknown_model_is_refused_by_its_kind() -> None:
    config = SimpleNamespace(model_type="minimax", layer_types=["full_attention", "linear_attention"])

    with pytest.raises(
        ModelUnsupported,
        match="minimax can't be served: its layers of type linear_attention are not run, only those of",
    ):
        read_states(config)


def test_a_size_that_is_no_number_is_refused_by_its_name() -> None:
    config = SimpleNamespace(model_type="lfm2", layer_types=["conv"], conv_L_cache=3, hidden_size=None)

    with pytest.raises(ModelUnsupported, match="hidden_size None, and a recurrent layer needs a whole number"):
        read_states(config)


@pytest.mark.parametrize(
    ("config", "told"),
    [
        (MambaConfig(**SMALL, conv_kernel=0), "conv_kernel 0, .* at least 1"),
        (MambaConfig(**SMALL, state_size=-1), "state_size -1, .* at least 1"),
        (Mamba2Config(**SMALL, num_heads=4, head_dim=32, n_groups=0), "n_groups 0, .* at least 1"),
        (
            Mamba2Config(**SMALL, num_heads=4, head_dim=32, n_groups=3),
            "num_heads 4, which is no multiple of n_groups, 3",
        ),
        (
            FalconH1Config(**SMALL, **HEADS, **(MAMBA2 | {"mamba_n_groups": 3}), mamba_d_ssm=128),
            "mamba_n_heads 4, which is no multiple of mamba_n_groups, 3",
        ),
        (JambaConfig(**SMALL, **HEADS, mamba_d_conv=0), "mamba_d_conv 0, .* at least 1"),
        (Qwen3NextConfig(**SMALL, **HEADS, linear_num_key_heads=0), "linear_num_key_heads 0, .* at least 1"),
        (
            Qwen3NextConfig(**SMALL, **HEADS, linear_num_key_heads=3, linear_num_value_heads=4),
            "linear_num_value_heads 4, which is no multiple of linear_num_key_heads, 3",
        ),
        (Lfm2Config(**SMALL, **HEADS, layer_types=["conv"] * 3, conv_L_cache=0), "conv_L_cache 0, .* at least 1"),
    ],
)
def test_sizes_that_make_no_sense_are_refused_by_their_names(config: PreTrainedConfig, told: str) -> None:
    with pytest.raises(ModelUnsupported, match=told):
        read_states(config)


@pytest.mark.parametrize(
    ("model", "kind", "own"),
    [("lfm2", "mamba", "conv"), ("falcon_h1", "conv", "hybrid"), ("qwen3_next", "hybrid", "linear_attention")],
)
def test_a_recurrent_layer_of_another_model_s_kind_is_refused(model: str, kind: str, own: str) -> None:
    with pytest.raises(ModelUnsupported, match=f"layers of type {kind} are not run, only those of type {own}"):
        check_kinds(model, ["full_attention", own, kind])
