import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import gguf
import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedConfig, PreTrainedModel
from transformers.integrations.ggml import GGUF_CONFIG_MAPPING
from transformers.modeling_gguf_pytorch_utils import TENSOR_PROCESSORS, TensorProcessor, get_gguf_hf_weights_map

from config.settings import ModelSettings
from engine.errors import ModelError
from engine.model.gguf_reader import GgufFile
from engine.model.gguf_weights import GgufWeights, find_weights
from engine.model.kernels.native import Kind
from engine.model.load import open_model, read_module
from tests.engine.model.gguf_files import add_blocks, close, new_file

Q4_1, Q5_K, Q8_0 = (gguf.GGMLQuantizationType[name] for name in ("Q4_1", "Q5_K", "Q8_0"))
SIZES = {
    "vocab_size": 96,
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 64,
    "rope_theta": 10_000.0,
    "head_dim": 16,
    "tie_word_embeddings": False,
    "pad_token_id": 0,
}


@dataclass(frozen=True)
class Architecture:
    """A tiny model of it: its name in a file, in `transformers`, and what its config has beside SIZES."""

    name: str
    model_type: str
    options: Mapping[str, object] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.name} {' '.join(map(str, self.options.values()))}".strip()


EXPERTS = {"num_experts": 3, "num_experts_per_tok": 2}
ARCHITECTURES = (
    Architecture("llama", "llama"),
    Architecture("llama", "llama", {"num_key_value_heads": 4, "tie_word_embeddings": True}),
    Architecture("qwen2", "qwen2"),
    Architecture("qwen3", "qwen3", {"head_dim": 128}),  # as other sizes that `transformers` takes from no file
    Architecture("qwen2moe", "qwen2_moe", EXPERTS),
    Architecture("qwen3moe", "qwen3_moe", EXPERTS),
    Architecture("phi3", "phi3"),
    Architecture("stablelm", "stablelm", {"use_qkv_bias": True}),
    Architecture("starcoder2", "starcoder2"),
    Architecture("nemotron", "nemotron"),
    Architecture("gemma2", "gemma2"),
    Architecture("gemma3", "gemma3_text"),
)


def write(path: Path, architecture: Architecture) -> None:
    """A file of random tensors, for all that `transformers` looks for."""
    config = AutoConfig.for_model(architecture.model_type, **{**SIZES, **architecture.options})
    model = AutoModelForCausalLM.from_config(config)
    writer = new_file(path, architecture.name)
    _write_config(writer, architecture, config)
    parameters = dict(model.named_parameters())
    random = np.random.default_rng(0)
    processor: TensorProcessor = TENSOR_PROCESSORS.get(architecture.name, TensorProcessor)(config.to_dict())  # type: ignore[no-untyped-call]  # transformers leaves it untyped
    for stem, parameter in sorted(get_gguf_hf_weights_map(model, processor).items()):
        if parameter not in parameters:
            continue  # the head, where it is the embedding
        values = random.standard_normal(_shape(stem, parameters[parameter])).astype(np.float32)
        name = f"{stem}.weight" if stem.endswith("_exps") else stem
        if values.ndim > 1 and values.shape[-1] % 32 == 0:
            add_blocks(writer, name, values, Q4_1 if "ffn" in name else Q8_0)
        else:
            writer.add_tensor(name, values)
    close(writer)


def _write_config(writer: gguf.GGUFWriter, architecture: Architecture, config: PreTrainedConfig) -> None:
    writer.add_token_list([f"token {id_}" for id_ in range(config.vocab_size)])
    for add in (writer.add_bos_token_id, writer.add_eos_token_id, writer.add_pad_token_id):
        add(0)
    mapping: dict[str, str | None] = GGUF_CONFIG_MAPPING[architecture.model_type.removesuffix("_text")]  # type: ignore[assignment]  # typed as objects
    for key, name in mapping.items():
        value = SIZES.get("rope_theta") if name == "rope_theta" else getattr(config, name or "", None)
        if isinstance(value, int):
            writer.add_uint32(f"{architecture.name}.{key}", value)
        elif isinstance(value, float):
            writer.add_float32(f"{architecture.name}.{key}", value)


def _shape(name: str, parameter: Tensor) -> tuple[int, ...]:
    """The shape that llama.cpp gives the tensor."""
    shape = tuple(parameter.shape)
    if re.search("ffn_(gate|up)_exps", name):
        return (shape[0], shape[1] // 2, shape[2])
    return shape[1:] if "ffn_gate_inp_shexp" in name else shape


def open_file(path: Path) -> GgufWeights:
    weights = find_weights(GgufFile(path))
    assert weights is not None
    return weights


def parameter_of(weights: GgufWeights, name: str, like: Tensor) -> Tensor:
    match like.ndim:
        case 1:
            return weights.vector(name)
        case 2:
            return weights.encoded(name).dense()
        case _:
            return torch.stack([expert.dense() for expert in weights.experts(name)])


def reference(path: Path) -> PreTrainedModel:
    return read_module(open_model(ModelSettings(path=str(path)), progress=lambda _: None), torch.float32)


@pytest.mark.parametrize("architecture", ARCHITECTURES, ids=str)
def test_parameters_are_what_transformers_loads(
    tmp_path: Path, architecture: Architecture, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "tiny.gguf"
    write(path, architecture)
    monkeypatch.setattr("engine.model.load.check_config", lambda _: None)  # experts are loaded, whoever runs them
    expected = dict(reference(path).named_parameters())

    weights = open_file(path)

    assert weights.names() == expected.keys()
    for name, parameter in expected.items():
        assert torch.equal(parameter_of(weights, name, parameter), parameter), name


def test_the_default_models_parameters_are_what_transformers_loads(default_model: Path) -> None:
    weights, expected = open_file(default_model), dict(reference(default_model).named_parameters())

    assert weights.names() == expected.keys()
    for name, parameter in expected.items():
        assert torch.equal(parameter_of(weights, name, parameter), parameter), name
    assert weights.encoded("model.embed_tokens.weight").kind is Kind.Q8
    assert weights.encoded("model.layers.0.self_attn.q_proj.weight").kind is Kind.Q4


def small_file(path: Path, tensors: dict[str, NDArray[np.generic]], *, heads: int | None = 2) -> GgufFile:
    """A Llama file of these tensors alone."""
    writer = new_file(path)
    if heads is not None:
        writer.add_head_count(heads)
    for name, values in tensors.items():
        writer.add_tensor(name, values)
    close(writer)
    return GgufFile(path)


def test_biases_of_queries_are_turned_as_their_rows_are(tmp_path: Path) -> None:
    bias = np.arange(8, dtype=np.float32)
    rows = np.repeat(bias[:, None], 32, axis=1)

    weights = find_weights(small_file(tmp_path / "tiny.gguf", {"blk.0.attn_q.weight": rows, "blk.0.attn_q.bias": bias}))

    assert weights is not None
    turned = weights.vector("model.layers.0.self_attn.q_proj.bias")
    assert turned.tolist() == [0, 2, 1, 3, 4, 6, 5, 7]  # heads of 4: first halves first
    assert torch.equal(weights.encoded("model.layers.0.self_attn.q_proj.weight").dense()[:, 0], turned)


@pytest.mark.parametrize("heads", [None, 0])
def test_a_file_that_does_not_say_its_heads_is_refused_by_the_key(tmp_path: Path, heads: int | None) -> None:
    weights = find_weights(
        small_file(tmp_path / "tiny.gguf", {"blk.0.attn_q.bias": np.zeros(8, np.float32)}, heads=heads)
    )

    assert weights is not None
    with pytest.raises(ModelError, match=r"llama\.attention\.head_count can't be"):
        weights.vector("model.layers.0.self_attn.q_proj.bias")


def test_rows_that_make_no_heads_are_refused_with_the_key(tmp_path: Path) -> None:
    weights = find_weights(small_file(tmp_path / "tiny.gguf", {"blk.0.attn_q.bias": np.zeros(6, np.float32)}))

    assert weights is not None
    with pytest.raises(ModelError, match=r"attn_q\.bias has 6 rows, .* llama\.attention\.head_count \(2\) heads"):
        weights.vector("model.layers.0.self_attn.q_proj.bias")


def test_a_norm_that_is_no_vector_is_refused_by_its_name(tmp_path: Path) -> None:
    weights = find_weights(small_file(tmp_path / "tiny.gguf", {"output_norm.weight": np.ones((4, 2), np.float32)}))

    assert weights is not None
    with pytest.raises(ModelError, match=r"output_norm\.weight has the shape \[4, 2\], and must be a vector"):
        weights.vector("model.norm.weight")


def test_a_matrix_of_more_dimensions_is_refused_by_its_name(tmp_path: Path) -> None:
    weights = find_weights(small_file(tmp_path / "tiny.gguf", {"output.weight": np.ones((2, 4, 2), np.float32)}))

    assert weights is not None
    with pytest.raises(ModelError, match=r"^output\.weight has the shape \[2, 4, 2\], and must be a matrix$"):
        weights.encoded("lm_head.weight")


@pytest.mark.parametrize(
    ("gates", "ups", "said"),
    [
        ((3, 4, 32), (3, 8, 32), r"\[3, 4, 32\] and .*ffn_up_exps\.weight has the shape \[3, 8, 32\], which differ"),
        ((4, 32), (4, 32), r"ffn_gate_exps\.weight has the shape \[4, 32\], and must have a matrix for each expert"),
    ],
)
def test_experts_of_other_shapes_are_refused_by_their_names(
    tmp_path: Path, gates: tuple[int, ...], ups: tuple[int, ...], said: str
) -> None:
    path = tmp_path / "tiny.gguf"
    writer = new_file(path, "qwen3moe")
    writer.add_tensor("blk.0.ffn_gate_exps.weight", np.zeros(gates, np.float32))
    writer.add_tensor("blk.0.ffn_up_exps.weight", np.zeros(ups, np.float32))
    close(writer)

    with pytest.raises(ModelError, match=said):
        open_file(path).experts("model.layers.0.mlp.experts.gate_up_proj")


def test_gates_and_ups_that_are_held_in_different_bits_become_bfloat16(tmp_path: Path) -> None:
    path = tmp_path / "tiny.gguf"
    writer = new_file(path, "qwen3moe")
    values = np.random.default_rng(0).standard_normal((3, 4, 32)).astype(np.float32)
    add_blocks(writer, "blk.0.ffn_gate_exps.weight", values, Q4_1)
    add_blocks(writer, "blk.0.ffn_up_exps.weight", values, Q8_0)
    close(writer)

    experts = open_file(path).experts("model.layers.0.mlp.experts.gate_up_proj")

    assert [(expert.kind, expert.outputs) for expert in experts] == [(Kind.BF16, 8)] * 3
    assert np.allclose(experts[2].dense().numpy(), np.concatenate([values[2], values[2]]), atol=0.25)


def test_vectors_may_be_held_in_16_bits(tmp_path: Path) -> None:
    weights = find_weights(small_file(tmp_path / "tiny.gguf", {"output_norm.weight": np.full(4, 1.5, np.float16)}))

    assert weights is not None
    assert weights.vector("model.norm.weight").tolist() == [1.5] * 4
    assert weights.vector("model.norm.weight").dtype == torch.float32


def test_decoded_parameters_are_the_callers_own(tmp_path: Path) -> None:
    weights = find_weights(small_file(tmp_path / "tiny.gguf", {"output_norm.weight": np.ones(4, np.float32)}))
    assert weights is not None

    weights.vector("model.norm.weight").zero_()

    assert weights.vector("model.norm.weight").tolist() == [1.0] * 4
