"""The default model, with its real shapes and weights."""

from pathlib import Path

import pytest
import torch
from torch import Tensor
from transformers import AutoModelForCausalLM, GgufConfig

from config.settings import ModelSettings
from engine.model.forward import Forward
from engine.model.gguf import quick_gguf
from engine.model.load import LoadedModel, load_model
from tests.models.support import make_forward, run

PROMPT = [1, 504, 3575, 282, 4649, 314, 253, 1743, 30, 339, 506, 260, 2240, 282, 260, 905]
TABLES = [list(range(first, first + 4)) for first in range(0, 68, 4)]


@pytest.fixture(scope="module")
def loaded(default_model: Path) -> LoadedModel:
    return load_model(ModelSettings(path=str(default_model)), progress=lambda _: None)


@pytest.fixture(scope="module")
def forward(loaded: LoadedModel) -> Forward:
    return make_forward(loaded.model, num_blocks=72, block_size=16, max_rows=64)


@pytest.fixture(scope="module")
def sequences() -> list[list[int]]:
    generator = torch.Generator().manual_seed(0)
    return [torch.randint(3, 49_152, (20 + length,), generator=generator).tolist() for length in range(17)]


@pytest.fixture(scope="module")
def last_logits(forward: Forward, sequences: list[list[int]]) -> list[Tensor]:
    """Those of each sequence's last token, the sequence alone in each step."""
    return [run(forward, (0, tokens, table))[0][-1] for tokens, table in zip(sequences, TABLES, strict=True)]


def test_it_is_loaded_as_what_its_file_says(loaded: LoadedModel, default_model: Path) -> None:
    assert loaded.architecture == "LlamaForCausalLM"
    assert loaded.context_length == 8192
    assert loaded.vocabulary_size == 49_152
    assert loaded.dtype == "float32"
    assert loaded.path == default_model


def test_its_weights_are_held_once_and_unpacked(loaded: LoadedModel) -> None:
    assert {parameter.dtype for parameter in loaded.model.parameters()} == {torch.float32}
    assert sum(parameter.numel() for parameter in loaded.model.parameters()) == 134_515_008
    assert loaded.model.get_output_embeddings().weight is loaded.model.get_input_embeddings().weight


def test_it_answers_as_plain_transformers_does(forward: Forward, default_model: Path) -> None:
    with quick_gguf():
        plain = AutoModelForCausalLM.from_pretrained(
            default_model.parent,
            gguf_file=default_model.name,
            dtype=torch.float32,
            quantization_config=GgufConfig(dequantize=True),
            attn_implementation="eager",
        )
    with torch.inference_mode():
        expected = plain(input_ids=torch.tensor([PROMPT]), use_cache=False).logits[0]

    (ours,) = run(forward, (0, PROMPT, TABLES[0]))

    assert torch.equal(ours.argmax(-1), expected.argmax(-1))
    torch.testing.assert_close(ours, expected, atol=2e-3, rtol=0)


@pytest.mark.parametrize("num_sequences", [1, 2, 3, 5, 8, 11, 16, 17])
def test_a_decoded_row_has_the_same_bits_among_any_number_of_rows(
    forward: Forward, sequences: list[list[int]], last_logits: list[Tensor], num_sequences: int
) -> None:
    chosen = list(zip(sequences, TABLES, strict=True))[:num_sequences]
    for tokens, table in chosen:
        run(forward, (0, tokens[:-1], table))

    decoded = run(forward, *((len(tokens) - 1, tokens[-1:], table) for tokens, table in chosen))

    assert all(torch.equal(ours[0], expected) for ours, expected in zip(decoded, last_logits, strict=False))


def test_a_decoded_row_has_the_same_bits_beside_a_prompt(
    forward: Forward, sequences: list[list[int]], last_logits: list[Tensor]
) -> None:
    run(forward, (0, sequences[3][:-1], TABLES[3]))

    ours, prompt = run(forward, (len(sequences[3]) - 1, sequences[3][-1:], TABLES[3]), (0, sequences[9], TABLES[9]))

    assert torch.equal(ours[0], last_logits[3])
    assert torch.equal(prompt[-1], last_logits[9])
