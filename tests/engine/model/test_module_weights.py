import torch
from transformers import LlamaConfig

from engine.model.kernels.native import Kind
from engine.model.module_weights import ModuleWeights
from tests.models.architectures import ARCHITECTURES, EXPERTS, make_model


def test_parameters_go_by_the_names_of_the_module() -> None:
    model = make_model(ARCHITECTURES["qwen2"]())
    weights = ModuleWeights(model)
    layer = model.get_submodule("model.layers.1")

    matrix = weights.encoded("model.layers.1.self_attn.k_proj.weight")

    assert weights.names() == {name for name, _ in model.named_parameters()}
    assert matrix.kind is Kind.F32
    assert torch.equal(matrix.dense(), layer.get_parameter("self_attn.k_proj.weight"))
    bias = weights.vector("model.layers.1.self_attn.k_proj.bias")
    assert torch.equal(bias, layer.get_parameter("self_attn.k_proj.bias"))


def test_a_tied_head_goes_by_the_embedding_s_name() -> None:
    config = ARCHITECTURES["llama"]()
    assert isinstance(config, LlamaConfig)
    config.tie_word_embeddings = True

    names = ModuleWeights(make_model(config)).names()

    assert "model.embed_tokens.weight" in names
    assert "lm_head.weight" not in names


def test_matrices_keep_their_type_and_vectors_are_float32() -> None:
    weights = ModuleWeights(make_model(ARCHITECTURES["llama"]()).bfloat16())

    assert weights.encoded("lm_head.weight").kind is Kind.BF16
    assert weights.vector("model.norm.weight").dtype == torch.float32
    assert not weights.vector("model.norm.weight").requires_grad


def test_experts_come_one_by_one() -> None:
    model = make_model(EXPERTS["mixtral"]())
    name = "model.layers.0.mlp.experts.gate_up_proj"

    experts = ModuleWeights(model).experts(name)

    assert len(experts) == 4
    assert torch.equal(torch.stack([expert.dense() for expert in experts]), model.get_parameter(name))
