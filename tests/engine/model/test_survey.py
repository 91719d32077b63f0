from pathlib import Path

import gguf
import numpy as np
import pytest
import torch
from gguf import GGMLQuantizationType as Type
from safetensors.torch import save_file
from torch import Tensor

from engine.errors import ModelNotFound
from engine.model import survey
from engine.model.kernels.library import LibraryUnusable
from engine.model.kernels.matrix import NAMES
from engine.model.kernels.native import Level, Library
from engine.model.kernels.product import MatrixProduct
from engine.model.precision import Precision
from engine.model.survey import read_files, torch_here, try_kernels
from engine.survey import KernelSurvey, TorchSurvey
from tests.engine.model.gguf_files import add_blocks, close, new_file
from tests.engine.model.kernels.machine import LEVELS


def test_every_level_of_this_cpu_answers_right_in_every_kind_of_bits() -> None:
    found = try_kernels()

    assert found.unusable is None
    assert found.levels == tuple(level.name.lower() for level in LEVELS)
    assert len(found.trials) == 5 * len(LEVELS)
    assert [trial for trial in found.trials if trial.fault is not None] == []


def test_a_library_that_can_not_be_used_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    def unusable() -> Library:
        raise LibraryUnusable("it was not built")

    monkeypatch.setattr(survey, "load_library", unusable)

    assert try_kernels() == KernelSurvey("it was not built")


class Wrong(MatrixProduct):
    """Products that are a little too large."""

    def __call__(self, rows: Tensor, num_rows: int) -> Tensor:
        return super().__call__(rows, num_rows) * 1.01


class Leaking(MatrixProduct):
    """Products that say how many rows there were, in the last bits."""

    def __call__(self, rows: Tensor, num_rows: int) -> Tensor:
        return super().__call__(rows, num_rows) + 1e-5 * num_rows


@pytest.mark.parametrize(
    ("product", "fault"),
    [(Wrong, "its products differ from torch's by up to"), (Leaking, "a row's product depends on the rows beside it")],
)
def test_a_kernel_that_is_wrong_is_seen(
    product: type[MatrixProduct], fault: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(survey, "MatrixProduct", product)

    assert all(trial.fault is not None and fault in trial.fault for trial in try_kernels().trials)


def test_what_computes_is_named_by_level_and_bits() -> None:
    named = {(level, NAMES[kind]): survey.computed_with(level, kind) for level in Level for kind in NAMES}

    assert named[Level.AVX2, "int4"] == "AVX2 and FMA"
    assert named[Level.AVX512, "int4"] == "AVX-512"
    assert {named[Level.AMX, bits] for bits in ("bfloat16", "int8", "int4")} == {"AMX tiles"}
    assert named[Level.AMX, "float16"] == "AMX tiles, rounded to bfloat16"
    assert named[Level.AMX, "float32"] == "AVX-512"


def gpus(monkeypatch: pytest.MonkeyPatch, names: list[str]) -> TorchSurvey:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: bool(names))
    monkeypatch.setattr(torch.cuda, "device_count", lambda: len(names))
    monkeypatch.setattr(torch.cuda, "get_device_name", names.__getitem__)
    return torch_here()


def test_torch_tells_its_version_and_the_gpus_that_it_sees(monkeypatch: pytest.MonkeyPatch) -> None:
    assert gpus(monkeypatch, []) == TorchSurvey(torch.__version__, torch.version.cuda, ())
    assert gpus(monkeypatch, ["One", "Two"]).gpus == ("One", "Two")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A thousand and some values in bfloat16, and 64 in float32."""
    save_file({"a": torch.zeros(32, 32, dtype=torch.bfloat16), "b": torch.zeros(64)}, tmp_path / "model.safetensors")
    return tmp_path


@pytest.mark.parametrize(
    ("precision", "is_native", "num_bytes"),
    [
        ("auto", True, 1024 * 2 + 64 * 4),
        ("float32", True, 1088 * 4),
        ("int8", True, 1088 + 2 * 34),
        ("auto", False, 1088 * 4),
        ("bfloat16", False, 1088 * 2),
    ],
)
def test_weights_take_what_their_bits_take(folder: Path, precision: Precision, is_native: bool, num_bytes: int) -> None:
    files = read_files(folder, precision, is_native=is_native)

    assert files.weight_bytes == num_bytes
    assert files.stored_as == "BF16+F32"
    assert files.file_bytes == (folder / "model.safetensors").stat().st_size


def test_a_gguf_file_tells_its_types_and_what_they_become(tmp_path: Path) -> None:
    path, values = tmp_path / "x.gguf", np.ones((8, 256), np.float32)
    writer: gguf.GGUFWriter = new_file(path)
    add_blocks(writer, "a", values, Type.Q4_1)
    writer.add_tensor("b", np.zeros((6, 210), np.uint8), raw_dtype=Type.Q6_K)
    add_blocks(writer, "c", values[:4], Type.F16)
    close(writer)

    files = read_files(path, "auto", is_native=True)

    assert files.stored_as == "Q4_1+Q6_K+F16"
    assert files.weight_bytes == 2048 * (0.5 + 4 / 32) + 1536 * (1 + 2 / 16) + 1024 * 2


def test_types_that_become_bfloat16_are_told_by_number(tmp_path: Path) -> None:
    path = tmp_path / "x.gguf"
    writer: gguf.GGUFWriter = new_file(path)
    writer.add_tensor("a", np.zeros((2, 66), np.uint8), raw_dtype=Type.TQ2_0)
    close(writer)

    files = read_files(path, "auto", is_native=True)

    assert (files.stored_as, files.weight_bytes) == (f"type {Type.TQ2_0.value}", 2 * 256 * 2)


def test_a_folder_without_weights_is_no_model(tmp_path: Path) -> None:
    with pytest.raises(ModelNotFound, match=r"has no \.safetensors files"):
        read_files(tmp_path, "auto", is_native=True)
