from pathlib import Path

import gguf
import numpy as np
import pytest
from transformers import modeling_gguf_pytorch_utils as transformers_gguf
from transformers.integrations.gguf import reader

from engine.model.gguf import quick_gguf
from tests.engine.model.gguf_files import add_blocks, close, new_file

Q8_0 = gguf.GGMLQuantizationType.Q8_0


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "tiny.gguf"
    writer = new_file(path)
    writer.add_block_count(3)
    writer.add_head_count([2])
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_token_list(["a", "ü", "longer than one byte"])
    writer.add_token_scores([0.0, 1.0, 2.0])
    writer.add_tensor("output.weight", np.arange(8, dtype=np.float32).reshape(2, 4))
    writer.add_tensor("half.weight", np.arange(8, dtype=np.float16).reshape(2, 4))
    add_blocks(writer, "blocks.weight", np.arange(64, dtype=np.float32).reshape(2, 32), Q8_0)
    close(writer)
    return str(path)


def test_transformers_reads_the_same_config(file: str) -> None:
    plain = transformers_gguf.load_gguf_checkpoint(file)["config"]

    with quick_gguf():
        quick = transformers_gguf.load_gguf_checkpoint(file)["config"]

    assert quick == plain
    assert quick["num_attention_heads"] == 2
    assert quick["vocab_size"] == 3


def test_transformers_reads_the_same_config_of_the_default_model(default_model: Path) -> None:
    with quick_gguf():
        config = transformers_gguf.load_gguf_checkpoint(str(default_model))["config"]

    assert config["vocab_size"] == 49152
    assert config["num_hidden_layers"] == 30
    assert config["rope_theta"] == 100_000.0
    assert config["tie_word_embeddings"]


@pytest.mark.parametrize("strings", [(), ("tokenizer.ggml.tokens",)])
def test_transformers_reads_the_same_metadata(file: str, strings: tuple[str, ...]) -> None:
    plain = reader.read_gguf_metadata(file, strings)

    with quick_gguf():
        assert reader.read_gguf_metadata(file, strings) == plain


def test_transformers_reads_the_same_tensors(file: str) -> None:
    plain = gguf.GGUFReader(file)

    with quick_gguf():
        quick = gguf.GGUFReader(file)

    for ours, theirs in zip(quick.tensors, plain.tensors, strict=True):
        assert (ours.name, ours.tensor_type) == (theirs.name, theirs.tensor_type)
        values = gguf.dequantize(ours.data, ours.tensor_type)
        assert np.array_equal(values, gguf.dequantize(theirs.data, theirs.tensor_type))
        assert values.dtype == np.float32


def test_the_names_of_tensors_are_worked_out_once() -> None:
    with quick_gguf():
        first = gguf.get_tensor_name_map(gguf.MODEL_ARCH.LLAMA, 4)

        assert gguf.get_tensor_name_map(gguf.MODEL_ARCH.LLAMA, 4) is first
        assert gguf.get_tensor_name_map(gguf.MODEL_ARCH.LLAMA, 5) is not first


def test_everything_is_put_back() -> None:
    before = (gguf.GGUFReader, gguf.get_tensor_name_map, reader.read_gguf_metadata)

    with pytest.raises(ZeroDivisionError), quick_gguf():
        raise ZeroDivisionError

    assert (gguf.GGUFReader, gguf.get_tensor_name_map, reader.read_gguf_metadata) == before
