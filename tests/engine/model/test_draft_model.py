"""Which models may guess for a tiny one, and what is refused."""

import json
from pathlib import Path

import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM, MambaConfig, MambaForCausalLM

from config.settings import Settings
from engine.cache.layout import Reach
from engine.errors import ModelUnsupported, SettingUnusable
from engine.model.assemble import Assembly, Sizes, assemble
from engine.model.draft_model import DraftModel, open_draft_model
from engine.model.load import open_model
from engine.model.tokenizer import load_tokenizer
from engine.stats import DraftModelInfo
from tests.tiny import MAX_CONTEXT, VOCABULARY_SIZE, make_tiny_model_folder, make_tiny_tokenizer

SIZES = Sizes(num_units=8, block_size=16, max_positions=8)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("target")
    make_tiny_model_folder(folder)
    return folder


def quietly(_: str) -> None:
    """Nobody wants to know."""


def assembled(folder: Path) -> Assembly:
    settings = Settings.model_validate({"model": {"path": str(folder), "num_threads": 1}})
    return assemble(open_model(settings.model, progress=quietly), settings.model, settings.cache, progress=quietly)


def opened(folder: Path, draft: Path | None) -> DraftModel | None:
    model = {
        "path": str(folder),
        "num_threads": 1,
        "max_context": 512,
        "draft_path": None if draft is None else str(draft),
    }
    vocabulary = load_tokenizer(str(folder)).vocabulary
    return open_draft_model(Settings.model_validate({"model": model}), assembled(folder), vocabulary, progress=quietly)


def other_folder(tmp_path: Path, *, vocabulary_size: int = VOCABULARY_SIZE, max_context: int = MAX_CONTEXT) -> Path:
    """A smaller Llama with the same tokenizer."""
    make_tiny_tokenizer(tmp_path)
    config = LlamaConfig(
        vocab_size=vocabulary_size,
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=1,
        num_attention_heads=2,
        num_key_value_heads=1,
        max_position_embeddings=max_context,
        dtype="float32",
    )
    torch.manual_seed(3)
    LlamaForCausalLM(config).save_pretrained(tmp_path)
    return tmp_path


def test_without_one_there_is_none(folder: Path) -> None:
    assert opened(folder, None) is None


def test_a_smaller_model_with_the_same_tokenizer_gets_places_beside_the_target_s(folder: Path, tmp_path: Path) -> None:
    found = opened(folder, other_folder(tmp_path, max_context=128))

    assert found is not None
    target = assembled(folder)
    beside = found.beside(target)
    assert beside.draft_model == DraftModelInfo(tmp_path.name, 128)
    assert (beside.layout.groups, beside.make_forward) == (target.layout.groups, target.make_forward)
    assert beside.layout.beside is not None
    assert (len(beside.layout.beside.layers), beside.layout.beside.reach) == (1, Reach.FULL)


def test_its_forward_pass_has_a_place_beside_each_unit_and_takes_a_whole_block_at_once(
    folder: Path, tmp_path: Path
) -> None:
    found = opened(folder, other_folder(tmp_path))
    assert found is not None

    drafter = found.maker(SIZES, table=0)()

    assert drafter._forward.storage.num_units == SIZES.num_units
    assert drafter._forward._max_rows == SIZES.block_size  # type: ignore[attr-defined]  # of the straight-line decoder
    drafter.close()


def test_another_number_of_tokens_is_refused_with_both(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(ModelUnsupported, match=f"has 320 tokens and the model {VOCABULARY_SIZE}: they must share"):
        opened(folder, other_folder(tmp_path, vocabulary_size=320))


def test_another_tokenizer_is_refused_with_the_first_token_that_differs(folder: Path, tmp_path: Path) -> None:
    file = other_folder(tmp_path) / "tokenizer.json"
    tokenizer = json.loads(file.read_text())
    vocabulary = tokenizer["model"]["vocab"]
    vocabulary["a"], vocabulary["b"] = vocabulary["b"], vocabulary["a"]
    file.write_text(json.dumps(tokenizer))

    with pytest.raises(ModelUnsupported, match=r"draft model .* spells b'b' to it and b'a' to the model"):
        opened(folder, tmp_path)


def test_a_recurrent_one_is_refused_by_its_kind(folder: Path, tmp_path: Path) -> None:
    make_tiny_tokenizer(tmp_path)
    config = MambaConfig(vocab_size=VOCABULARY_SIZE, hidden_size=32, num_hidden_layers=1, state_size=4)
    MambaForCausalLM(config).save_pretrained(tmp_path)

    with pytest.raises(ModelUnsupported, match="a draft model can't have recurrent layers, and this one has Mamba"):
        opened(folder, tmp_path)


def test_one_that_is_not_there_is_named(folder: Path) -> None:
    with pytest.raises(SettingUnusable, match=r"the draft model .*nowhere: there is no folder or file") as refused:
        opened(folder, folder / "nowhere")

    assert refused.value.setting == "model.draft_path"
