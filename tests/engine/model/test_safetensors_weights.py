import json
import struct
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor

from engine.errors import ModelError
from engine.model.kernels.native import Kind
from engine.model.safetensors_weights import SafetensorsWeights, find_safetensors

TENSORS = {
    "model.norm.weight": torch.arange(4, dtype=torch.bfloat16),
    "model.layers.0.mlp.up_proj.weight": torch.randn(3, 4, generator=torch.Generator().manual_seed(0)),
    "model.layers.0.mlp.experts.down_proj": torch.arange(24, dtype=torch.float16).view(2, 3, 4),
    "lm_head.weight": torch.ones(5, 4, dtype=torch.bfloat16),
}


def save(folder: Path, tensors: dict[str, Tensor], *, parts: int = 1) -> None:
    if parts == 1:
        save_file(tensors, folder / "model.safetensors")
        return
    names = sorted(tensors)
    places = {name: f"part{index % parts}.safetensors" for index, name in enumerate(names)}
    for place in set(places.values()):
        save_file({name: tensors[name] for name in names if places[name] == place}, folder / place)
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": places}))


def find(folder: Path, *, tied: bool = False) -> SafetensorsWeights:
    weights = find_safetensors(folder, tied=tied)
    assert weights is not None
    return weights


@pytest.mark.parametrize("parts", [1, 3])
def test_tensors_are_read_in_their_own_types(tmp_path: Path, parts: int) -> None:
    save(tmp_path, TENSORS, parts=parts)

    weights = find(tmp_path)

    assert weights.names() == TENSORS.keys()
    matrix = weights.encoded("model.layers.0.mlp.up_proj.weight")
    assert matrix.kind is Kind.F32
    assert torch.equal(matrix.dense(), TENSORS["model.layers.0.mlp.up_proj.weight"])
    assert weights.encoded("lm_head.weight").kind is Kind.BF16
    experts = weights.experts("model.layers.0.mlp.experts.down_proj")
    assert [expert.kind for expert in experts] == [Kind.F16] * 2
    assert experts[1].dense().tolist() == [[12.0, 13, 14, 15], [16, 17, 18, 19], [20, 21, 22, 23]]
    norm = weights.vector("model.norm.weight")
    assert (norm.dtype, norm.tolist()) == (torch.float32, [0.0, 1.0, 2.0, 3.0])


def test_a_copy_of_the_embedding_is_no_head(tmp_path: Path) -> None:
    save(tmp_path, TENSORS)

    assert "lm_head.weight" not in find(tmp_path, tied=True).names()


def test_a_model_whose_head_is_missing_is_left_to_transformers(tmp_path: Path) -> None:
    save(tmp_path, {name: tensor for name, tensor in TENSORS.items() if name != "lm_head.weight"})

    assert find_safetensors(tmp_path, tied=False) is None
    assert find_safetensors(tmp_path, tied=True) is not None


def test_other_types_than_floats_are_left_to_transformers(tmp_path: Path) -> None:
    save(tmp_path, TENSORS | {"scale": torch.ones(2, dtype=torch.int8)})

    assert find_safetensors(tmp_path, tied=False) is None


def test_a_folder_without_weights_has_none(tmp_path: Path) -> None:
    save_file(TENSORS, tmp_path / "adapter.safetensors")

    assert find_safetensors(tmp_path, tied=False) is None


@pytest.mark.parametrize("name", ["../model.safetensors", "/model.safetensors"])
def test_an_index_that_leaves_its_folder_is_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps({"weight_map": {"lm_head.weight": name}}))

    with pytest.raises(ModelError, match=r"model\.safetensors, which is not in its folder"):
        find_safetensors(tmp_path, tied=False)


@pytest.mark.parametrize("text", ["{", "[]", "{}", '{"weight_map": 1}'])
def test_an_index_that_is_none_is_named(tmp_path: Path, text: str) -> None:
    (tmp_path / "model.safetensors.index.json").write_text(text)

    with pytest.raises(ModelError, match=r"model\.safetensors\.index\.json has no weight_map"):
        find_safetensors(tmp_path, tied=False)


def test_a_file_that_is_cut_short_is_named_before_it_is_read(tmp_path: Path) -> None:
    save(tmp_path, TENSORS, parts=3)
    file = tmp_path / "part1.safetensors"
    file.write_bytes(file.read_bytes()[: struct.calcsize("Q") + 100])

    with pytest.raises(ModelError, match=r"^part1\.safetensors can't be read: Error while deserializing header"):
        find_safetensors(tmp_path, tied=False)


def test_a_file_that_the_index_names_and_that_is_not_there_is_named(tmp_path: Path) -> None:
    save(tmp_path, TENSORS, parts=3)
    (tmp_path / "part2.safetensors").unlink()

    with pytest.raises(ModelError, match=r"^part2\.safetensors can't be read: No such file"):
        find_safetensors(tmp_path, tied=False)
