import pytest

from engine.model.gguf_names import name_parameters


def test_a_parameter_is_named_as_transformers_names_it() -> None:
    tensors = [
        "token_embd.weight",
        "output_norm.weight",
        "output.weight",
        "blk.11.attn_q.weight",
        "blk.0.ffn_norm.weight",
    ]

    assert name_parameters("llama", tensors) == {
        "model.embed_tokens.weight": ("token_embd.weight",),
        "model.norm.weight": ("output_norm.weight",),
        "lm_head.weight": ("output.weight",),
        "model.layers.11.self_attn.q_proj.weight": ("blk.11.attn_q.weight",),
        "model.layers.0.post_attention_layernorm.weight": ("blk.0.ffn_norm.weight",),
    }


def test_gates_come_before_ups_whatever_the_order_in_the_file() -> None:
    tensors = ["blk.0.ffn_up_exps.weight", "blk.0.ffn_gate_exps.weight"]

    assert name_parameters("qwen3moe", tensors) == {
        "model.layers.0.mlp.experts.gate_up_proj": ("blk.0.ffn_gate_exps.weight", "blk.0.ffn_up_exps.weight")
    }


@pytest.mark.parametrize("tensor", ["rope_freqs.weight", "rope_factors_long.weight", "rope_factors_short.weight"])
def test_tables_that_are_no_parameters_are_passed_over(tensor: str) -> None:
    assert name_parameters("llama", ["output.weight", tensor]) == {"lm_head.weight": ("output.weight",)}


@pytest.mark.parametrize("architecture", ["mamba", "gpt2", "bloom", "gpt-oss", ""])
def test_an_architecture_that_takes_more_than_names_has_none(architecture: str) -> None:
    assert name_parameters(architecture, ["output.weight"]) is None


@pytest.mark.parametrize(
    "tensor",
    ["blk.0.ffn_gate_exps.weight", "blk.0.attn_q_norm.weight", "blk.0.new.weight", "new.weight", "blk.x.attn_q.weight"],
)
def test_a_tensor_without_a_place_in_the_model_leaves_it_to_transformers(tensor: str) -> None:
    assert name_parameters("llama", ["output.weight", tensor]) is None
