import json
import re
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from config.settings import CacheSettings, ModelSettings
from engine.errors import ModelError, ModelUnsupported
from engine.model import assemble as module
from engine.model.assemble import Assembly, Sizes, assemble, cache_dtype, kernels_for
from engine.model.forward import Forward
from engine.model.load import open_model
from engine.model.native_forward import NativeForward
from engine.model.packed_forward import PackedForward
from engine.model.runner import ModelForward
from tests.models.architectures import ARCHITECTURES, EXPERTS, OTHERS, VARIANTS, make_model, plain_logits
from tests.models.case import NUM_BLOCKS, Case, random_sequences, same_bits
from tests.models.support import every_kernels, run

TOKENS = [3 + at * 7 % 90 for at in range(50)]
FASTEST = every_kernels()[-1]


def save(folder: Path, name: str, *, dtype: torch.dtype = torch.float32) -> Tensor:
    """Save a model as a folder; returns its own logits of the tokens, as float32 computes them."""
    model = make_model((ARCHITECTURES | VARIANTS | EXPERTS | OTHERS)[name]())
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(parameter.to(dtype))
    plain = plain_logits(model, TOKENS)
    if dtype is torch.bfloat16:
        model.bfloat16()
    model.save_pretrained(folder)
    return plain


def assembled(folder: Path, *, block_size: int = 16, cache: str = "auto", **settings: object) -> Assembly:
    chosen = ModelSettings.model_validate({"path": str(folder), "num_threads": 1} | settings)
    opened = open_model(chosen, progress=lambda _: None)
    stored = CacheSettings.model_validate({"block_size": block_size, "dtype": cache})
    return assemble(opened, chosen, stored, progress=lambda _: None)


def made(parts: Assembly, *, block_size: int = 16) -> ModelForward:
    with torch.inference_mode():
        return parts.make_forward(Sizes(num_units=8 * parts.layout.num_tables, block_size=block_size, max_positions=64))


def error(forward: ModelForward, plain: Tensor) -> float:
    (ours,) = run(forward, (0, TOKENS, [3, 0, 5, 1]))
    return float((ours - plain).abs().max() / plain.abs().max())


@pytest.mark.parametrize("name", ["llama", "gpt2", "gemma2", "llama-biases", "mixtral"])
def test_a_folder_that_is_described_runs_straight(tmp_path: Path, name: str) -> None:
    plain = save(tmp_path, name)

    parts = assembled(tmp_path, weights="float32")
    forward = made(parts)

    assert isinstance(forward, NativeForward)
    assert parts.runs_on == f"straight-line decoder, {FASTEST}"
    assert parts.layout.dtype == "float32"
    assert error(forward, plain) < 1e-4
    forward.close()


@pytest.mark.parametrize("name", ["starcoder2", "stablelm-normed", "qwen2-moe", "deepseek-v3", "llama4", "gemma3n"])
def test_what_is_not_described_runs_as_modules_on_the_same_kernels(tmp_path: Path, name: str) -> None:
    plain = save(tmp_path, name)

    parts = assembled(tmp_path, weights="float32")
    forward = made(parts)

    assert isinstance(forward, PackedForward)
    assert parts.runs_on == f"modules of transformers, {FASTEST}"
    assert error(forward, plain) < 1e-4
    forward.close()


@pytest.mark.parametrize("name", ["llama", "starcoder2"])
def test_torch_runs_everything_when_it_is_asked_to(tmp_path: Path, name: str) -> None:
    plain = save(tmp_path, name, dtype=torch.bfloat16)

    parts = assembled(tmp_path, kernels="torch")
    forward = made(parts)

    assert isinstance(forward, Forward)
    assert parts.runs_on == "modules of transformers, torch"
    assert (forward.weights, parts.layout.dtype) == ("float32", "float32")
    assert error(forward, plain) < 1e-4


def test_what_is_not_described_is_told_in_a_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    save(tmp_path, "starcoder2")

    assembled(tmp_path)

    (record,) = caplog.records
    assert record.getMessage() == (
        f"starcoder2 runs on a slower path (modules of transformers, {FASTEST}), since a faster one fails: "
        f"straight-line decoder, {FASTEST}: its structure is not one of those described"
    )


def fail_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let both paths over the kernels give other logits than they should."""
    for forward in (NativeForward, PackedForward):
        monkeypatch.setattr(forward, "run", lambda self, plan, plain=forward.run: plain(self, plan) * 1.001)


def test_torch_runs_what_the_kernels_fail_with_one_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    plain = save(tmp_path, "llama")
    fail_kernels(monkeypatch)

    parts = assembled(tmp_path)
    forward = made(parts)

    assert isinstance(forward, Forward)
    assert parts.runs_on == "modules of transformers, torch"
    assert (forward.weights, parts.layout.dtype) == ("float32", "float32")
    assert error(forward, plain) < 1e-4
    (record,) = caplog.records
    differ = r"its logits differ from plain attention's by up to [\d.e-]+"
    paths = rf"straight-line decoder, {FASTEST}: {differ}; modules of transformers, {FASTEST}: {differ}"
    assert re.fullmatch(rf"llama runs on a slower path \({parts.runs_on}\), .*: {paths}", record.getMessage())


def test_a_level_that_fails_is_refused_where_it_was_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    save(tmp_path, "llama")
    fail_kernels(monkeypatch)

    refusal = r"model\.kernels is avx2, and llama can't be served on it: straight.*avx2: its logits.*modules.*avx2: its"
    with pytest.raises(ModelUnsupported, match=refusal):
        assembled(tmp_path, kernels="avx2")

    assert caplog.records == []


@pytest.mark.parametrize(
    ("settings", "name"), [({"weights": "int8"}, "model.weights"), ({"cache": "int8"}, "cache.dtype")]
)
def test_integers_are_refused_too_where_the_kernels_fail(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, settings: dict[str, Any], name: str
) -> None:
    save(tmp_path, "llama")
    fail_kernels(monkeypatch)

    with pytest.raises(
        ModelUnsupported, match=rf"{name} is int8, which takes .* and they don't run llama: straight.*: its"
    ):
        assembled(tmp_path, **settings)


def test_torch_computes_in_bfloat16_when_weights_are_asked_for_in_it(tmp_path: Path) -> None:
    save(tmp_path, "llama")

    parts = assembled(tmp_path, kernels="torch", weights="bfloat16")
    forward = made(parts)

    assert isinstance(forward, Forward)
    assert (forward.weights, parts.layout.dtype) == ("bfloat16", "bfloat16")


@pytest.mark.parametrize("weights", ["float32", "bfloat16"])
def test_torch_gives_a_sequence_the_same_bits_alone_batched_and_in_chunks(tmp_path: Path, weights: str) -> None:
    save(tmp_path, "llama", dtype=torch.bfloat16)
    parts = assembled(tmp_path, kernels="torch", weights=weights)
    with torch.inference_mode():
        forward = parts.make_forward(Sizes(NUM_BLOCKS, block_size=16, max_positions=256))
    assert isinstance(forward, Forward)
    case = Case(forward, random_sequences((140, 60, 33)))
    alone = case.alone()

    assert forward.weights == weights
    assert same_bits(case.batched(), alone)
    assert same_bits(case.chunked(7), alone)
    assert same_bits(case.chunked(60), alone)
    assert torch.equal(case.token_by_token(2), alone[2])
    assert torch.equal(case.behind_a_hit(5), alone[0][80:])


@pytest.mark.parametrize(
    ("weights", "kept", "cache"),
    [
        ("auto", "bfloat16", "bfloat16"),
        ("float32", "float32", "float32"),
        ("bfloat16", "bfloat16", "bfloat16"),
        ("int8", "int8", "bfloat16"),
        ("int4", "int4", "bfloat16"),
    ],
)
@pytest.mark.parametrize("name", ["llama", "starcoder2"])
def test_weights_are_kept_in_the_bits_asked_for_or_in_the_file_s(
    tmp_path: Path, name: str, weights: str, kept: str, cache: str
) -> None:
    plain = save(tmp_path, name, dtype=torch.bfloat16)

    parts = assembled(tmp_path, weights=weights)
    forward = made(parts)

    assert (forward.weights, parts.layout.dtype) == (kept, cache)
    assert error(forward, plain) < {"int8": 0.2, "int4": 1.5}.get(weights, 0.05)
    forward.close()


def test_a_file_of_other_names_is_read_as_the_module_is(tmp_path: Path) -> None:
    plain = save(tmp_path, "mixtral")
    tensors = load_file(tmp_path / "model.safetensors")

    parts = assembled(tmp_path, weights="float32")
    forward = made(parts)

    assert any(".w1." in name for name in tensors)  # the file has an expert's matrices one by one
    assert error(forward, plain) < 1e-4
    forward.close()


@pytest.mark.parametrize("level", [str(kernels) for kernels in every_kernels()])
def test_every_level_can_be_asked_for(tmp_path: Path, level: str) -> None:
    plain = save(tmp_path, "llama")

    parts = assembled(tmp_path, kernels=level, weights="float32")
    forward = made(parts)

    assert parts.runs_on == f"straight-line decoder, {level}"
    assert error(forward, plain) < 1e-4
    forward.close()


def test_a_context_that_is_cut_has_the_angles_of_what_is_served(tmp_path: Path) -> None:
    save(tmp_path, "phi3-longrope")

    short, long = (made(assembled(tmp_path, weights="float32", max_context=most)) for most in (64, 512))
    (first,), (second,) = (run(forward, (0, TOKENS, range(4))) for forward in (short, long))

    assert not torch.allclose(first, second)
    short.close()
    long.close()


def test_small_blocks_run_on_torch_with_a_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    plain = save(tmp_path, "llama")

    parts = assembled(tmp_path, block_size=8)
    forward = made(parts, block_size=8)

    assert isinstance(forward, Forward)
    assert parts.runs_on == "modules of transformers, torch"
    assert "cache.block_size is 8, and the kernels take multiples of 16: the model runs on torch" in caplog.text
    (ours,) = run(forward, (0, TOKENS, range(7)))
    assert float((ours - plain).abs().max()) < 1e-3


@pytest.mark.parametrize("block_size", [1, 8, 24])
def test_small_blocks_and_a_level_are_refused_together(block_size: int) -> None:
    with pytest.raises(ModelUnsupported, match=rf"block_size is {block_size} and .*kernels avx2.* multiples of 16"):
        kernels_for(ModelSettings(path="x", kernels="avx2"), CacheSettings(block_size=block_size))


@pytest.mark.parametrize("block_size", [16, 48])
def test_blocks_of_whole_lanes_are_taken(block_size: int) -> None:
    kernels = kernels_for(ModelSettings(path="x"), CacheSettings(block_size=block_size))

    assert kernels is not None
    assert kernels.level is FASTEST.level


@pytest.mark.parametrize(
    ("settings", "cache", "reason"),
    [
        ({"weights": "int8"}, {}, r"model\.weights is int8, which takes the native kernels"),
        ({"weights": "int4"}, {}, r"model\.weights is int4"),
        ({}, {"dtype": "int8"}, r"cache\.dtype is int8"),
    ],
)
def test_torch_is_not_asked_for_integers(settings: dict[str, str], cache: dict[str, str], reason: str) -> None:
    asked = ModelSettings.model_validate({"path": "x", "kernels": "torch"} | settings)

    with pytest.raises(ModelUnsupported, match=reason):
        kernels_for(asked, CacheSettings.model_validate(cache))


def test_integers_are_refused_too_where_there_are_no_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "choose_kernels", lambda _: None)

    with pytest.raises(ModelUnsupported, match=r"model\.weights is int8, which takes the native kernels"):
        kernels_for(ModelSettings(path="x", weights="int8"), CacheSettings())


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int8"])
def test_the_cache_s_type_can_be_set_apart_from_the_weights(tmp_path: Path, dtype: str) -> None:
    save(tmp_path, "llama")

    parts = assembled(tmp_path, weights="int8", cache=dtype)
    forward = made(parts)

    assert isinstance(forward, NativeForward)
    assert parts.layout.dtype == forward.storage.layout.dtype == dtype
    forward.close()


@pytest.mark.parametrize("settings", [{"cache": "float32"}, {"cache": "int8"}, {"kernels": "torch"}])
def test_a_cache_takes_the_memory_that_its_layout_says(tmp_path: Path, settings: dict[str, Any]) -> None:
    save(tmp_path, "llama-odd")  # heads of 24 values, which the kernels pad

    parts = assembled(tmp_path, **settings)
    forward = made(parts)

    assert isinstance(forward, NativeForward | Forward)
    assert forward.storage.num_bytes == forward.storage.num_units * parts.layout.unit_bytes(16)
    forward.close()


def test_a_cache_on_torch_is_as_the_weights_are_computed() -> None:
    asked = [ModelSettings.model_validate({"path": "x", "weights": each}) for each in ("auto", "float32", "bfloat16")]

    assert [cache_dtype(each, CacheSettings(), None) for each in asked] == ["float32", "float32", "bfloat16"]
    assert [cache_dtype(each, CacheSettings(), FASTEST) for each in asked] == ["bfloat16", "float32", "bfloat16"]


def test_what_will_serve_is_told_before_weights_are_read(tmp_path: Path) -> None:
    save(tmp_path, "qwen3")

    parts = assembled(tmp_path)

    assert parts.architecture == "Qwen3ForCausalLM"
    assert parts.vocabulary_size == 96


@pytest.mark.parametrize("kernels", ["auto", "torch"])
def test_a_file_whose_tensors_have_other_sizes_is_refused_with_both(tmp_path: Path, kernels: str) -> None:
    save(tmp_path, "llama")
    config = tmp_path / "config.json"
    config.write_text(json.dumps(json.loads(config.read_text()) | {"intermediate_size": 160}))

    with pytest.raises(ModelError, match=r"gate_proj.* has the shape \[128, 64\], and by .* it is \[160, 64\]"):
        made(assembled(tmp_path, kernels=kernels))


@pytest.mark.parametrize("name", ["mixtral", "starcoder2"])
def test_so_is_one_that_only_its_reader_knows(tmp_path: Path, name: str) -> None:
    save(tmp_path, name)
    config = tmp_path / "config.json"
    config.write_text(json.dumps(json.loads(config.read_text()) | {"intermediate_size": 160}))

    with pytest.raises(ModelError, match=r"^model\.layers\.0\.mlp\..* has the shape \[.*128.*\], and by .*160"):
        made(assembled(tmp_path))


def test_a_file_that_lacks_a_tensor_is_refused_by_its_name(tmp_path: Path) -> None:
    save(tmp_path, "llama")
    tensors = load_file(tmp_path / "model.safetensors")
    del tensors["model.layers.1.mlp.down_proj.weight"]
    save_file(tensors, tmp_path / "model.safetensors", {"format": "pt"})

    with pytest.raises(ModelError, match=r"model\.layers\.1\.mlp\.down_proj\.weight"):
        made(assembled(tmp_path))
