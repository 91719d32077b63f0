from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM, BloomConfig, GPT2Config, LlamaConfig, OlmoeConfig, PreTrainedConfig

from config.settings import ModelSettings
from engine.model.kernels.native import Activation, NormKind, Rotary, Scoring
from engine.model.load import open_model
from engine.model.recognise import recognise
from engine.model.structure import ExpertsData, FeedForwardData, LayerData, NormData, RotaryData, Structure
from tests.models.architectures import ARCHITECTURES, EXPERTS, OTHERS, VARIANTS

DESCRIBED = ARCHITECTURES | VARIANTS | EXPERTS


def names_of(config: PreTrainedConfig) -> frozenset[str]:
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(config)
    return frozenset(name for name, _ in model.named_parameters())


def described(name: str) -> Structure:
    config = DESCRIBED[name]()
    structure = recognise(config, names_of(config))
    assert structure is not None
    return structure


def first_layer(name: str) -> LayerData:
    return described(name).layers[0]


@pytest.mark.parametrize("name", DESCRIBED)
def test_an_architecture_that_is_known_is_described_by_parameters_that_it_has(name: str) -> None:
    config = DESCRIBED[name]()
    names = names_of(config)
    structure = recognise(config, names)
    assert structure is not None

    asked = {structure.embedding, structure.final_norm.weight, *structure.head.weights, *structure.head.biases}
    for layer in structure.layers:
        norms = [layer.attention_norm, layer.after_attention, layer.feed_norm, layer.after_feed]
        norms += [layer.attention.query_norm, layer.attention.key_norm]
        asked |= {part for norm in norms if norm is not None for part in (norm.weight, norm.bias)}
        linears = [layer.attention.qkv, layer.attention.out]
        if isinstance(layer.feed, FeedForwardData):
            linears += [layer.feed.up, layer.feed.down]
        else:
            linears.append(layer.feed.router)
            asked |= {layer.feed.up, layer.feed.up_bias, layer.feed.down, layer.feed.down_bias}
        asked |= {part for linear in linears for part in (*linear.weights, *linear.biases)} | {layer.attention.sinks}
    asked |= {structure.final_norm.bias, structure.positions}
    assert len(structure.layers) == config.num_hidden_layers
    assert asked - {None} == names == structure.parameters


@pytest.mark.parametrize("config", [BloomConfig(), *(make() for make in OTHERS.values())])
def test_a_model_that_is_not_known_is_not_described(config: PreTrainedConfig) -> None:
    assert recognise(config, names_of(config)) is None


@pytest.mark.parametrize(
    "config",
    [
        GPT2Config(n_layer=1, scale_attn_by_inverse_layer_idx=True),
        GPT2Config(n_layer=1, scale_attn_weights=False),
        OlmoeConfig(num_hidden_layers=1, clip_qkv=8.0),
        LlamaConfig(num_hidden_layers=1, hidden_act="tanh"),
    ],
)
def test_an_option_without_a_word_for_it_is_not_described(config: PreTrainedConfig) -> None:
    assert recognise(config, names_of(config)) is None


@pytest.mark.parametrize(
    "lacking",
    [
        "model.layers.1.self_attn.v_proj.weight",
        "model.layers.0.input_layernorm.weight",
        "model.norm.weight",
        "model.layers.1.mlp.down_proj.weight",
    ],
)
def test_a_model_that_lacks_a_parameter_is_not_described(lacking: str) -> None:
    config = ARCHITECTURES["llama"]()

    assert recognise(config, names_of(config) - {lacking}) is None


def test_biases_of_some_parts_alone_are_not_described() -> None:
    config = ARCHITECTURES["qwen2"]()

    assert recognise(config, names_of(config) - {"model.layers.0.self_attn.k_proj.bias"}) is None


def test_a_llama_is_the_plainest() -> None:
    structure = described("llama")
    layer = structure.layers[1]

    assert (structure.hidden, structure.vocabulary) == (64, 96)
    assert (structure.embedding_scale, structure.logit_scale, structure.logit_softcap) == (1.0, 1.0, None)
    assert structure.head.weights == ("lm_head.weight",)
    assert layer.attention_norm == NormData("model.layers.1.input_layernorm.weight", None, NormKind.RMS, 1e-6)
    assert layer.attention.qkv.weights == tuple(f"model.layers.1.self_attn.{part}_proj.weight" for part in "qkv")
    assert layer.attention.rotary == RotaryData(Rotary.HALF, 16, None)
    assert (layer.attention.heads, layer.attention.kv_heads, layer.attention.head_dim) == (4, 2, 16)
    assert (layer.attention.scale, layer.attention.window, layer.attention.softcap) == (0.25, None, None)
    assert (layer.after_attention, layer.after_feed) == (None, None)
    assert (layer.parallel, layer.residual_scale) == (False, 1.0)
    assert isinstance(layer.feed, FeedForwardData)
    assert (layer.feed.width, layer.feed.activation, layer.feed.gated) == (128, Activation.SILU, True)
    assert not structure.has_experts


def test_a_tied_head_is_the_embedding() -> None:
    assert described("llama-biases").head.weights == ("model.embed_tokens.weight",)


@pytest.mark.parametrize(
    ("name", "windows"),
    [
        ("qwen2", [None, None]),
        ("qwen2-window", [None, 24]),
        ("mistral-window", [24, 24]),
        ("gemma2", [24, None]),
        ("gemma3", [24, None]),
        ("cohere2", [24, None]),
        ("gpt-oss", [24, None]),
    ],
)
def test_layers_have_the_windows_of_their_types(name: str, windows: list[int | None]) -> None:
    assert [layer.attention.window for layer in described(name).layers] == windows


@pytest.mark.parametrize(
    ("name", "turned"),
    [("smollm3", [True, False]), ("cohere2", [True, False]), ("gpt2", [False, False]), ("llama", [True, True])],
)
def test_layers_that_do_not_turn_their_heads_have_no_rotary(name: str, turned: list[bool]) -> None:
    assert [layer.attention.rotary is not None for layer in described(name).layers] == turned


def test_gemma_adds_one_to_its_norms_and_scales_its_embedding() -> None:
    structure = described("gemma")

    assert structure.final_norm.offset == 1.0
    assert structure.embedding_scale == 8.0
    assert described("llama").final_norm.offset == 0.0


def test_gemma2_has_norms_on_both_sides_and_caps() -> None:
    layer = first_layer("gemma2")
    prefix = "model.layers.0."

    norms = (layer.attention_norm, layer.after_attention, layer.feed_norm, layer.after_feed)
    assert [norm and norm.weight for norm in norms] == [
        f"{prefix}input_layernorm.weight",
        f"{prefix}post_attention_layernorm.weight",
        f"{prefix}pre_feedforward_layernorm.weight",
        f"{prefix}post_feedforward_layernorm.weight",
    ]
    assert layer.attention.softcap == 5.0
    assert layer.attention.scale == 256**-0.5
    assert described("gemma2-capped").logit_softcap == 0.7


def test_olmo2_has_norms_behind_alone_and_over_all_heads() -> None:
    layer = first_layer("olmo2")

    assert (layer.attention_norm, layer.feed_norm) == (None, None)
    assert layer.after_attention is not None
    assert layer.after_feed is not None
    assert layer.attention.norm_whole
    assert not first_layer("qwen3").attention.norm_whole


def test_gpt_neox_s_fused_parts_are_put_in_order() -> None:
    order = first_layer("gpt-neox").attention.qkv.order

    assert order is not None
    assert order[:17] == (*range(16), 48)  # the first head's queries, then the second's
    assert order[64:66] == (16, 17)  # the first head's keys
    assert sorted(order) == list(range(192))


@pytest.mark.parametrize(
    ("name", "parallel"),
    [
        ("gpt-neox", True),
        ("gpt-neox-serial", False),
        ("cohere", True),
        ("stablelm", False),
        ("stablelm-parallel", True),
    ],
)
def test_parts_stand_beside_or_behind_each_other(name: str, parallel: bool) -> None:
    assert first_layer(name).parallel == parallel


def test_granite_s_multipliers_are_all_there() -> None:
    structure = described("granite")

    assert structure.embedding_scale == 3.0
    assert structure.logit_scale == 0.5
    assert structure.layers[0].residual_scale == 0.5
    assert structure.layers[0].attention.scale == 0.3


def test_gpt2_lies_the_other_way_and_learns_its_positions() -> None:
    structure = described("gpt2")

    assert structure.positions == "transformer.wpe.weight"
    assert structure.layers[0].attention.qkv.transposed
    assert isinstance(structure.layers[0].feed, FeedForwardData)
    assert not structure.layers[0].feed.gated
    assert structure.layers[0].feed.activation is Activation.GELU_TANH


@pytest.mark.parametrize(
    ("name", "count", "chosen", "width", "scoring", "normalize"),
    [
        ("mixtral", 4, 2, 128, Scoring.SOFTMAX, True),
        ("qwen3-moe", 8, 3, 32, Scoring.SOFTMAX, True),
        ("olmoe", 8, 2, 128, Scoring.SOFTMAX, False),
        ("gpt-oss", 4, 2, 128, Scoring.SOFTMAX_OF_CHOSEN, False),
    ],
)
def test_experts_are_described(
    name: str, count: int, chosen: int, width: int, scoring: Scoring, normalize: bool
) -> None:
    structure = described(name)
    feed = structure.layers[1].feed

    assert structure.has_experts
    assert isinstance(feed, ExpertsData)
    assert (feed.count, feed.chosen, feed.width) == (count, chosen, width)
    assert (feed.scoring, feed.normalize) == (scoring, normalize)
    assert (feed.activation is Activation.CLAMPED_SWIGLU) == (name == "gpt-oss") == feed.interleaved
    assert (feed.up_bias is not None) == (name == "gpt-oss") == (structure.layers[1].attention.sinks is not None)


@pytest.mark.parametrize(
    ("name", "besides"),
    [
        ("llama", "model.layers.0.self_attn.q_proj.scale"),
        ("llama", "model.layers.2.input_layernorm.weight"),  # of a layer more than the config has
        ("stablelm", "model.layers.1.self_attn.q_layernorm.norms.3.weight"),
        ("gpt2", "transformer.ln_e.weight"),
        ("mixtral", "model.layers.0.mlp.shared_expert.up_proj.weight"),
    ],
)
def test_a_model_with_a_parameter_more_than_its_description_is_not_described(name: str, besides: str) -> None:
    config = DESCRIBED[name]()

    assert recognise(config, names_of(config)) is not None
    assert recognise(config, names_of(config) | {besides}) is None


def test_normed_heads_that_are_not_described_are_left_over() -> None:
    config = OTHERS["stablelm-normed"]()

    assert recognise(config, names_of(config)) is None


@pytest.mark.parametrize(
    ("name", "besides"),
    [
        ("llama", "model.layers.1.self_attn.rotary_emb.inv_freq"),
        ("gpt2", "transformer.h.0.attn.bias"),
        ("gpt2", "transformer.h.0.attn.masked_bias"),
        ("gpt-neox", "gpt_neox.layers.1.attention.bias"),
        ("gpt-neox", "gpt_neox.layers.1.attention.masked_bias"),
        ("gpt-neox", "gpt_neox.layers.1.attention.rotary_emb.inv_freq"),
    ],
)
def test_masks_and_angles_in_a_file_are_no_parameters(name: str, besides: str) -> None:
    config = DESCRIBED[name]()

    assert recognise(config, names_of(config) | {besides}) == recognise(config, names_of(config))


def test_a_gguf_file_and_a_module_are_described_alike(default_model: Path) -> None:
    opened = open_model(ModelSettings(path=str(default_model)), progress=lambda _: None)
    assert opened.source is not None

    assert recognise(opened.config, opened.source.names()) == recognise(opened.config, names_of(opened.config))
