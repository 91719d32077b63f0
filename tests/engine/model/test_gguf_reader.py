from pathlib import Path

import gguf
import numpy as np
import pytest

from engine.errors import ModelError
from engine.model.gguf_reader import GgufFile, Strings
from tests.engine.model.gguf_files import close, new_file

WEIGHT = np.arange(64, dtype=np.float32).reshape(2, 32)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "tiny.gguf"
    writer = new_file(path)
    writer.add_block_count(3)
    writer.add_rope_freq_base(0.5)
    writer.add_add_bos_token(value=True)
    writer.add_head_count([1, 2, 3])
    writer.add_token_list(["a", "ü", "", "longer than one byte"])
    writer.add_tensor("norm.weight", np.arange(5, dtype=np.float32))
    writer.add_tensor("output.weight", gguf.quantize(WEIGHT, gguf.GGMLQuantizationType.Q8_0),
                      raw_dtype=gguf.GGMLQuantizationType.Q8_0)  # fmt: skip
    close(writer)
    return path


def change(path: Path, at: int, data: bytes) -> None:
    content = bytearray(path.read_bytes())
    content[at : at + len(data)] = data
    path.write_bytes(content)


def test_it_reads_what_the_reader_of_the_gguf_package_does(path: Path) -> None:
    plain, file = gguf.GGUFReader(path), GgufFile(path)

    said = {key: value.read() if isinstance(value, Strings) else value for key, value in file.metadata.items()}

    assert said == {key: field.contents() for key, field in plain.fields.items() if not key.startswith("GGUF.")}
    assert file.architecture == "llama"
    for tensor in plain.tensors:
        ours = file.tensors[tensor.name]
        assert (ours.shape, ours.type) == (tuple(map(int, tensor.shape[::-1])), tensor.tensor_type)
        assert ours.data.tobytes() == tensor.data.tobytes()


def test_it_reads_the_default_model_as_the_gguf_package_does(default_model: Path) -> None:
    file = GgufFile(default_model)
    plain = gguf.GGUFReader(default_model)

    tokens, merges = (file.metadata[f"tokenizer.ggml.{name}"] for name in ("tokens", "merges"))

    assert isinstance(tokens, Strings)
    assert isinstance(merges, Strings)
    assert (len(tokens), len(merges)) == (49152, 48900)
    assert tokens.read()[-100:] == plain.fields["tokenizer.ggml.tokens"].contents(slice(-100, None))
    assert file.tensors.keys() == {tensor.name for tensor in plain.tensors}


def test_what_is_no_gguf_file_is_refused_by_its_first_bytes(path: Path) -> None:
    change(path, 0, b"GGML")

    with pytest.raises(ModelError, match=r"no GGUF file: it begins with b'GGML'"):
        GgufFile(path)


@pytest.mark.parametrize(("version", "said"), [(b"\1\0\0\0", "version 1,"), (b"\0\0\0\3", "version 50331648,")])
def test_other_versions_and_byte_orders_are_refused(path: Path, version: bytes, said: str) -> None:
    change(path, 4, version)

    with pytest.raises(ModelError, match=said):
        GgufFile(path)


def test_a_file_that_ends_anywhere_is_refused_in_one_line(path: Path, tmp_path: Path) -> None:
    content = path.read_bytes()
    cut = tmp_path / "cut.gguf"

    for length in range(0, len(content) - 32):
        cut.write_bytes(content[:length])
        with pytest.raises(ModelError, match=r"cut short|no GGUF file") as refused:
            GgufFile(cut)
        assert "\n" not in str(refused.value)


def test_a_length_beyond_the_file_is_refused_before_memory_is_asked_for(path: Path) -> None:
    change(path, 24, b"\xff" * 7)  # the length of the first key

    with pytest.raises(ModelError, match="cut short or damaged"):
        GgufFile(path)


@pytest.mark.parametrize("type_", [gguf.GGMLQuantizationType.F16, gguf.GGMLQuantizationType.Q8_0])
def test_a_tensor_of_another_size_than_the_file_has_room_for_is_refused(
    path: Path, type_: gguf.GGMLQuantizationType
) -> None:
    name = b"norm.weight"
    at = path.read_bytes().index(name) + len(name) + 4 + 8  # behind the number of dims and the only one
    change(path, at - 8, (64).to_bytes(8, "little"))
    change(path, at, int(type_).to_bytes(4, "little"))

    with pytest.raises(ModelError, match=r"output\.weight begins at byte 32 of the data, and by the sizes of all at"):
        GgufFile(path)


def test_tensors_that_overlap_are_refused(path: Path) -> None:
    at = path.read_bytes().index(b"output.weight") + len(b"output.weight") + 4 + 2 * 8 + 4
    change(path, at, (0).to_bytes(8, "little"))

    with pytest.raises(ModelError, match="begins at byte 0 of the data, and by the sizes of all at"):
        GgufFile(path)


def test_a_tensor_of_no_values_is_refused(path: Path) -> None:
    at = path.read_bytes().index(b"norm.weight") + len(b"norm.weight") + 4
    change(path, at, (0).to_bytes(8, "little"))

    with pytest.raises(ModelError, match=r"norm\.weight has the shape \[0\]"):
        GgufFile(path)


def test_an_alignment_that_is_none_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "tiny.gguf"
    writer = new_file(path)
    writer.add_uint32("general.alignment", 0)
    close(writer)

    with pytest.raises(ModelError, match=r"general\.alignment can't be 0"):
        GgufFile(path)
