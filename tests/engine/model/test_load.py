import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedConfig, PreTrainedModel
from transformers.utils import logging as transformers_logging

from config.settings import ModelSettings
from engine.errors import ModelError, ModelNotFound, ModelUnsupported
from engine.model.load import OpenedModel, _context_length, open_model, read_module
from tests.engine.model.gguf_files import write_llama
from tests.models.architectures import OTHERS, make_model
from tests.tiny import MAX_CONTEXT, make_tiny_model_folder


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    make_tiny_model_folder(tmp_path)
    return tmp_path


def load(path: Path, **settings: object) -> OpenedModel:
    return open_model(ModelSettings.model_validate({"path": str(path)} | settings), progress=lambda _: None)


def read(path: Path, dtype: torch.dtype | None = torch.float32) -> PreTrainedModel:
    return read_module(load(path), dtype)


def change_config(folder: Path, **fields: object) -> None:
    file = folder / "config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | fields))


def weights_of(folder: Path) -> Path:
    return folder / "model.safetensors"


def test_a_folder_is_opened_by_its_config(folder: Path) -> None:
    opened = load(folder)

    assert opened.config.model_type == "llama"
    assert opened.path == folder
    assert opened.name == folder.name
    assert opened.context_length == MAX_CONTEXT


def test_the_name_can_be_set(folder: Path) -> None:
    assert load(folder, name="mine").name == "mine"


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_module_is_read_in_the_type_that_is_asked_for(folder: Path, dtype: torch.dtype) -> None:
    assert {parameter.dtype for parameter in read(folder, dtype).parameters()} == {dtype}


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_module_is_read_in_the_type_of_its_file_where_none_is_asked_for(folder: Path, dtype: torch.dtype) -> None:
    LlamaForCausalLM.from_pretrained(folder, dtype=dtype).save_pretrained(folder)

    assert {parameter.dtype for parameter in read(folder, None).parameters()} == {dtype}


def test_parameters_are_read_without_transformers_where_they_have_their_names(folder: Path) -> None:
    source, module = load(folder).source, read(folder)

    assert source is not None
    assert source.names() == dict(module.named_parameters()).keys()
    name = "model.layers.1.mlp.down_proj.weight"
    assert torch.equal(source.encoded(name).dense(), module.get_parameter(name))


def test_parameters_by_other_names_are_left_to_transformers(folder: Path) -> None:
    tensors = load_file(weights_of(folder))
    save_file(
        {name.removeprefix("model."): tensor for name, tensor in tensors.items()}, weights_of(folder), {"format": "pt"}
    )

    assert load(folder).source is None
    assert torch.equal(read(folder).get_parameter("model.norm.weight"), tensors["model.norm.weight"])


@pytest.mark.parametrize(("max_context", "expected"), [(100, 100), (10 * MAX_CONTEXT, MAX_CONTEXT)])
def test_the_context_is_the_smaller_of_the_model_s_and_the_set_one(
    folder: Path, max_context: int, expected: int
) -> None:
    assert load(folder, max_context=max_context).context_length == expected


def test_tied_embeddings_are_held_once(folder: Path) -> None:
    change_config(folder, tie_word_embeddings=True)
    tensors = load_file(weights_of(folder))
    del tensors["lm_head.weight"]
    save_file(tensors, weights_of(folder), {"format": "pt"})

    opened = load(folder)
    model = read_module(opened, torch.float32)

    assert model.get_output_embeddings().weight is model.get_input_embeddings().weight
    assert opened.source is not None
    assert "lm_head.weight" not in opened.source.names()


def test_the_libraries_say_nothing_and_are_left_as_they_were(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    verbosity, bars = transformers_logging.get_verbosity(), transformers_logging.is_progress_bar_enabled()

    read(folder)

    assert capfd.readouterr() == ("", "")
    assert (transformers_logging.get_verbosity(), transformers_logging.is_progress_bar_enabled()) == (verbosity, bars)


def test_a_folder_without_weights_is_refused(folder: Path) -> None:
    weights_of(folder).unlink()

    with pytest.raises(ModelNotFound, match=r"has no \.safetensors files"):
        read(folder)


def test_weights_that_are_cut_short_are_refused_in_one_line(folder: Path) -> None:
    data = weights_of(folder).read_bytes()
    weights_of(folder).write_bytes(data[: len(data) // 2])

    with pytest.raises(ModelError, match=r"model\.safetensors can't be read") as refused:
        load(folder)

    assert "\n" not in str(refused.value)


def test_a_missing_tensor_is_named(folder: Path) -> None:
    tensors = load_file(weights_of(folder))
    del tensors["model.layers.1.mlp.down_proj.weight"]
    save_file(tensors, weights_of(folder), {"format": "pt"})

    assert load(folder).source is None
    with pytest.raises(ModelError, match=r"lacks 1 .* model\.layers\.1\.mlp\.down_proj\.weight"):
        read(folder)


def test_a_config_that_is_no_json_is_refused(folder: Path) -> None:
    (folder / "config.json").write_text("{")

    with pytest.raises(ModelError, match="can't be loaded"):
        load(folder)


def test_an_unknown_type_of_model_is_refused(folder: Path) -> None:
    change_config(folder, model_type="never-heard-of")

    with pytest.raises(ModelError, match="never-heard-of"):
        load(folder)


def test_an_unsupported_structure_is_refused_before_its_weights_are_read(folder: Path) -> None:
    change_config(folder, quantization_config={"quant_method": "awq", "bits": 4})
    weights_of(folder).unlink()

    with pytest.raises(ModelUnsupported, match="quantized with awq"):
        load(folder)


def test_a_model_that_does_not_say_its_context_needs_a_setting() -> None:
    silent = PreTrainedConfig()

    assert _context_length(silent, 100) == 100
    with pytest.raises(ModelError, match=r"model\.max_context"):
        _context_length(silent, None)


def test_a_file_that_is_no_gguf_is_refused_in_one_line(tmp_path: Path) -> None:
    file = tmp_path / "model.gguf"
    file.write_bytes(b"GGUF but no more")

    with pytest.raises(ModelError, match="is no GGUF file: it has 16 bytes") as refused:
        load(file)

    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("values", "shapes", "said"),
    [
        ({"attention.head_count": 0}, {}, r"llama\.attention\.head_count is 0, and must be a whole number"),
        ({"attention.head_count_kv": 3}, {}, r"head_count is 4, .* no multiple of llama\.attention\.head_count_kv, 3"),
        ({"attention.head_count": 5}, {}, r"The hidden size \(64\) is not a multiple of .* heads \(5\)"),
        (
            {"attention.head_count_kv": 4},
            {},
            r"^blk\.0\.attn_k\.weight has the shape \[32, 64\], and by llama\.attention\.head_count_kv \(4\), "
            r"heads of 16 and llama\.embedding_length \(64\) it is \[64, 64\]$",
        ),
        (
            {"embedding_length": 96, "feed_forward_length": 64},
            {},
            r"^token_embd\.weight has the shape \[32, 64\], and by .* llama\.embedding_length \(96\) it is \[32, 96\]$",
        ),
        ({"block_count": 10**6}, {}, r"llama\.block_count is 1000000, and there are tensors of 2 layers"),
        ({"context_length": 0}, {}, r"llama\.context_length is 0"),
        ({}, {"blk.1.ffn_down.weight": (96, 64)}, r"^blk\.1\.ffn_down\.weight has the shape \[96, 64\], .*\[64, 96\]$"),
        ({}, {"blk.1.ffn_norm.weight": (1, 64)}, r"^blk\.1\.ffn_norm\.weight has the shape \[1, 64\], .*\[64\]$"),
    ],
)
def test_a_gguf_file_that_contradicts_itself_is_refused_when_it_is_opened(
    tmp_path: Path, values: dict[str, object], shapes: dict[str, tuple[int, ...]], said: str
) -> None:
    write_llama(tmp_path / "tiny.gguf", values, shapes)

    with pytest.raises(ModelError, match=said):
        load(tmp_path / "tiny.gguf")


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"num_attention_heads": 0}, "num_attention_heads is 0, and must be a whole number of at least 1"),
        ({"max_position_embeddings": 0}, "max_position_embeddings is 0, and must be"),
        ({"num_key_value_heads": 3}, "num_attention_heads is 4, which is no multiple of num_key_value_heads, 3"),
        ({"num_attention_heads": 3}, r"The hidden size \(64\) is not a multiple of .* heads \(3\)"),
        ({"hidden_size": [64]}, r"Field 'hidden_size' expected int, got list"),
        ({"num_hidden_layers": 10**6}, "num_hidden_layers is 1000000, and there are tensors of 2 layers"),
        ({"num_hidden_layers": 1}, "num_hidden_layers is 1, and there are tensors of 2 layers"),
        ({"vocab_size": 100}, r"embed_tokens\.weight has the shape \[304, 64\], and by vocab_size \(100\) and"),
    ],
)
def test_a_config_that_contradicts_itself_or_the_tensors_is_refused(
    folder: Path, fields: dict[str, object], said: str
) -> None:
    change_config(folder, **fields)

    with pytest.raises(ModelError, match=said) as refused:
        load(folder)

    assert "validat" not in str(refused.value)


def test_a_tensor_that_only_transformers_reads_is_refused_by_its_name_and_both_shapes(folder: Path) -> None:
    make_model(OTHERS["starcoder2"]()).save_pretrained(folder)
    tensors = load_file(weights_of(folder))
    name = "model.layers.1.mlp.c_fc.weight"
    tensors[name] = tensors[name].t().contiguous()
    save_file(tensors, weights_of(folder), {"format": "pt"})

    with pytest.raises(ModelError, match=rf"{name} has the shape \[64, 128\], and by the config it is \[128, 64\]"):
        read(folder)


def test_code_that_comes_with_a_model_is_not_run(folder: Path) -> None:
    change_config(folder, model_type="custom", auto_map={"AutoConfig": "custom.Config"})
    (folder / "custom.py").write_text("raise SystemExit('run')")

    with pytest.raises(ModelError, match="can't be loaded"):
        load(folder)


def test_weights_take_their_own_size_of_memory_once(tmp_path: Path) -> None:
    config = LlamaConfig(
        vocab_size=20_000, hidden_size=512, intermediate_size=2048, num_hidden_layers=8, num_attention_heads=8
    )
    program = f"""
from pathlib import Path
import torch
from config.settings import ModelSettings
from engine.model.load import open_model, read_module

def read(path):
    return read_module(open_model(ModelSettings(path=path), progress=lambda _: None), torch.float32)

def resident():
    return int(open("/proc/self/statm").read().split()[1]) * 4096

read({str(tmp_path / "tiny")!r})
before = resident()
model = read({str(tmp_path / "large")!r})
for parameter in model.parameters():
    parameter.sum()
print(sum(parameter.nbytes for parameter in model.parameters()), resident() - before)
"""
    make_tiny_model_folder(tmp_path / "tiny")
    LlamaForCausalLM(config).save_pretrained(tmp_path / "large")
    done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    size, grown = map(int, done.stdout.split())

    assert size > 150 << 20
    assert grown < 1.2 * size
