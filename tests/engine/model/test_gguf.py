from pathlib import Path

import gguf
import numpy as np
import pytest

from engine.model.gguf import quick_gguf


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "tiny.gguf"
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_name("tiny")
    writer.add_block_count(3)
    writer.add_token_list(["a", "ü", "longer than one byte"])
    writer.add_tensor("output.weight", np.arange(8, dtype=np.float32).reshape(2, 4))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def test_a_quick_reader_reads_what_the_plain_one_does(file: Path) -> None:
    plain = gguf.GGUFReader(file)

    with quick_gguf():
        quick = gguf.GGUFReader(file)

    assert quick.fields.keys() == plain.fields.keys()
    assert all(quick.fields[key].contents() == field.contents() for key, field in plain.fields.items())
    assert quick.tensors[0].name == "output.weight"
    assert np.array_equal(quick.tensors[0].data, plain.tensors[0].data)


def test_the_names_of_tensors_are_worked_out_once() -> None:
    with quick_gguf():
        first = gguf.get_tensor_name_map(gguf.MODEL_ARCH.LLAMA, 4)

        assert gguf.get_tensor_name_map(gguf.MODEL_ARCH.LLAMA, 4) is first
        assert gguf.get_tensor_name_map(gguf.MODEL_ARCH.LLAMA, 5) is not first


def test_everything_is_put_back() -> None:
    before = (gguf.GGUFReader, gguf.get_tensor_name_map)

    with pytest.raises(ZeroDivisionError), quick_gguf():
        raise ZeroDivisionError

    assert (gguf.GGUFReader, gguf.get_tensor_name_map) == before
