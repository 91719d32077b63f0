import json
from dataclasses import dataclass
from pathlib import Path

import pytest
from torch import nn
from transformers import GPT2Config, PreTrainedConfig

from engine.errors import ModelError, ModelUnsupported
from engine.model.check import (
    MIXER_SIZES,
    Terms,
    check_file,
    check_folder,
    check_heads,
    check_layers,
    check_parameters,
    check_shapes,
    terms_of,
)
from engine.model.gguf_reader import GgufFile
from engine.model.recognise import recognise
from tests.engine.model.gguf_files import write_llama
from tests.models.architectures import ARCHITECTURES, EXPERTS, OTHERS, VARIANTS, make_model
from tests.models.recurrent import RECURRENT

EVERY = ARCHITECTURES | VARIANTS | EXPERTS | OTHERS


@dataclass(frozen=True)
class FakeStored:
    """The shapes of parameters, each a tensor of a name of its own."""

    shapes: dict[str, tuple[int, ...]]

    def place(self, name: str) -> str:
        return f"the tensor of {name}"

    def shape(self, name: str) -> tuple[int, ...]:
        return self.shapes[name]


def shapes_of(model: nn.Module) -> dict[str, tuple[int, ...]]:
    return {name: tuple(parameter.shape) for name, parameter in model.named_parameters()}


def check_model(name: str, **changed: tuple[int, ...]) -> int:
    """Check one of the models with some of its tensors in another shape; the number of changed ones that it has."""
    model = make_model(EVERY[name]())
    shapes = shapes_of(model)
    structure = recognise(model.config, shapes.keys())
    if structure is not None:
        check_shapes(model.config, structure, FakeStored(shapes | changed), Terms())
    return len(shapes.keys() & changed.keys())


@pytest.mark.parametrize("name", EVERY)
def test_the_shapes_of_a_whole_model_are_those_that_its_config_gives(name: str) -> None:
    check_model(name)


@pytest.mark.parametrize(
    ("name", "tensor", "shape"),
    [
        ("llama", "model.norm.weight", (7,)),
        ("llama", "lm_head.weight", (7, 64)),
        ("llama", "model.layers.1.self_attn.o_proj.weight", (64, 7)),
        ("llama", "model.layers.1.input_layernorm.weight", (64, 1)),
        ("gpt2", "transformer.wpe.weight", (7, 64)),
        ("gpt2", "transformer.h.0.attn.c_attn.weight", (192, 64)),
        ("phi3", "model.layers.0.self_attn.qkv_proj.weight", (7, 64)),
    ],
)
def test_a_tensor_of_another_shape_is_named_as_its_file_names_it(
    name: str, tensor: str, shape: tuple[int, ...]
) -> None:
    with pytest.raises(ModelError, match=rf"^the tensor of {tensor} has the shape \[{', '.join(map(str, shape))}\]"):
        check_model(name, **{tensor: shape})


def test_the_sizes_that_give_a_shape_are_named_with_their_numbers(tmp_path: Path) -> None:
    write_llama(tmp_path / "tiny.gguf")

    terms = terms_of(GgufFile(tmp_path / "tiny.gguf"))

    assert terms.kv_heads == "llama.attention.head_count_kv"
    assert terms.vocabulary == "llama.vocab_size"


@pytest.mark.parametrize("value", ["0", "-3", "2.5", '"many"', "true", "NaN"])
@pytest.mark.parametrize("name", ["num_attention_heads", "hidden_size", "num_hidden_layers", "n_layer", "n_positions"])
def test_a_size_in_a_config_that_is_none_is_named_with_its_value(tmp_path: Path, name: str, value: str) -> None:
    (tmp_path / "config.json").write_text(f'{{"{name}": {value}}}')

    with pytest.raises(ModelError, match=rf"^config\.json: {name} is .*, and must be a whole number of at least 1"):
        check_folder(tmp_path)


@pytest.mark.parametrize("name", MIXER_SIZES)
def test_so_is_a_size_of_a_recurrent_layer(tmp_path: Path, name: str) -> None:
    for value in (0, -2, "wide"):
        (tmp_path / "config.json").write_text(json.dumps({name: value}))

        with pytest.raises(ModelError, match=rf"^config\.json: {name} is {value!r}, and must be a whole number"):
            check_folder(tmp_path)


@pytest.mark.parametrize(
    ("name", "changed", "told"),
    [
        ("mamba2", {"num_heads": 3}, "num_heads is 3, head_dim 32, .* don't make up expand x hidden_size, 128"),
        ("bamba", {"mamba_d_head": 31}, "mamba_d_head 31, .* don't make up mamba_expand x hidden_size, 128"),
        ("granite-hybrid", {"mamba_n_heads": 3, "mamba_d_head": "auto"}, "mamba_n_heads is 3, mamba_d_head auto"),
        ("falcon-h1", {"mamba_d_ssm": 100}, "don't make up mamba_d_ssm, 100"),
    ],
)
def test_heads_that_do_not_make_up_a_mixer_are_named_with_their_numbers(
    tmp_path: Path, name: str, changed: dict[str, object], told: str
) -> None:
    (tmp_path / "config.json").write_text(json.dumps(RECURRENT[name]().to_dict() | changed))

    with pytest.raises(ModelError, match=told):
        check_folder(tmp_path)


@pytest.mark.parametrize("name", RECURRENT)
def test_a_whole_recurrent_config_passes(tmp_path: Path, name: str) -> None:
    config = RECURRENT[name]().to_dict()
    automatic = {field: "auto" for field in ("time_step_rank", "mamba_dt_rank", "mamba_d_head") if field in config}
    for changed in ({}, automatic, {"mamba_d_ssm": None}):
        (tmp_path / "config.json").write_text(json.dumps(config | changed))

        check_folder(tmp_path)


@pytest.mark.parametrize(
    ("field", "kind"), [("layer_types", "mamba"), ("layer_types", "telepathy"), ("layers_block_type", "recurrent")]
)
def test_a_kind_of_layers_is_refused_by_the_name_that_the_file_has(tmp_path: Path, field: str, kind: str) -> None:
    config = {"model_type": "gemma3_text", field: ["sliding_attention", kind]}
    (tmp_path / "config.json").write_text(json.dumps(config))

    with pytest.raises(ModelUnsupported, match=f"layers of type {kind}"):
        check_folder(tmp_path)


@pytest.mark.parametrize("text", ["{", "[]", "{}", '{"n_inner": null, "intermediate_size": [1, 2], "vocab_size": 9}'])
def test_what_else_a_config_says_is_left_to_its_reader(tmp_path: Path, text: str) -> None:
    (tmp_path / "config.json").write_text(text)

    check_folder(tmp_path)


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"attention.head_count": 0}, r"llama\.attention\.head_count is 0, and must be"),
        ({"attention.head_count_kv": 0}, r"llama\.attention\.head_count_kv is 0, and must be"),
        ({"attention.head_count": -4}, r"llama\.attention\.head_count is -4, and must be"),
        ({"embedding_length": "wide"}, r"llama\.embedding_length is 'wide', and must be"),
        ({"context_length": 0}, r"llama\.context_length is 0, and must be"),
        ({"feed_forward_length": [96, 96]}, r"llama\.feed_forward_length has a value for each layer"),
        ({"attention.head_count": None}, r"does not say llama\.attention\.head_count"),
        ({"block_count": 0}, r"llama\.block_count is 0, and must be"),
        ({"block_count": 1}, r"llama\.block_count is 1, and there are tensors of 2 layers"),
        ({"block_count": 10**6}, r"llama\.block_count is 1000000, and there are tensors of 2 layers"),
    ],
)
def test_a_size_in_a_gguf_file_that_can_not_be_is_named(tmp_path: Path, values: dict[str, object], said: str) -> None:
    write_llama(tmp_path / "tiny.gguf", values)

    with pytest.raises(ModelError, match=said):
        check_file(GgufFile(tmp_path / "tiny.gguf"))


def test_a_whole_gguf_file_passes(tmp_path: Path) -> None:
    write_llama(tmp_path / "tiny.gguf")

    check_file(GgufFile(tmp_path / "tiny.gguf"))


@pytest.mark.parametrize(("heads", "kv_heads"), [(9, 2), (4, 8), (4, 0)])
def test_heads_that_do_not_share_keys_evenly_are_refused(heads: int, kv_heads: int) -> None:
    config = PreTrainedConfig.from_dict({"num_attention_heads": heads, "num_key_value_heads": kv_heads})

    with pytest.raises(ModelError, match=f"num_attention_heads is {heads}, .* num_key_value_heads, {kv_heads}"):
        check_heads(config, Terms())


def test_layers_are_counted_by_the_tensors_names() -> None:
    names = ["model.layers.0.mlp.up.weight", "model.layers.11.mlp.up.weight", "model.norm.weight"]

    check_layers(12, names, Terms(), exactly=True)
    check_layers(2, names, Terms(), exactly=False)  # more than are used
    check_layers(2, ["model.norm.weight"], Terms(), exactly=True)  # by names that are not known
    with pytest.raises(ModelError, match="num_hidden_layers is 13, and there are tensors of 12 layers"):
        check_layers(13, names, Terms(), exactly=False)


def test_a_known_decoder_is_not_cut_short() -> None:
    names = ["transformer.h.0.ln_1.weight", "transformer.h.1.ln_1.weight"]

    check_parameters(PreTrainedConfig.from_dict({"num_hidden_layers": 1}), names, Terms())
    with pytest.raises(ModelError, match="num_hidden_layers is 1, and there are tensors of 2 layers"):
        check_parameters(GPT2Config(n_layer=1), names, Terms())
