"""The default model, with its real shapes and weights, on every path."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch
from torch import Tensor
from transformers import AutoModelForCausalLM, GgufConfig, PreTrainedModel

from config.settings import CacheSettings, ModelSettings
from engine.model.assemble import Sizes, assemble
from engine.model.forward import Forward
from engine.model.gguf import quick_gguf
from engine.model.load import OpenedModel, open_model, read_module
from engine.model.native_forward import NativeForward
from engine.model.tokenizer import load_tokenizer
from tests.models.support import every_kernels, make_forward, run

PROMPT = [1, 504, 3575, 282, 4649, 314, 253, 1743, 30, 339, 506, 260, 2240, 282, 260, 905]
PASSAGE = Path(__file__).with_name("passage.txt")
TABLES = [list(range(first, first + 4)) for first in range(0, 256, 4)]
NUM_BLOCKS = 256
BLOCK_SIZE = 16
MAX_ROWS = 256


def sequences(count: int) -> list[list[int]]:
    generator = torch.Generator().manual_seed(0)
    return [torch.randint(3, 49_152, (4 + length % 17,), generator=generator).tolist() for length in range(count)]


@pytest.fixture(scope="module")
def passage(default_model: Path) -> list[int]:
    """Over a thousand tokens of ordinary prose."""
    tokenizer = load_tokenizer(str(default_model), chat_template=None)
    tokens = tokenizer.encode(PASSAGE.read_text(), add_special_tokens=False)
    assert len(tokens) > 1000
    return tokens


@dataclass(frozen=True)
class Plain:
    """What plain `transformers` says in float32: logits of the prompt, log-probabilities of the passage."""

    prompt: Tensor
    passage: Tensor


@pytest.fixture(scope="module")
def plain(default_model: Path, passage: list[int]) -> Plain:
    with quick_gguf():
        model = AutoModelForCausalLM.from_pretrained(
            default_model.parent,
            gguf_file=default_model.name,
            dtype=torch.float32,
            quantization_config=GgufConfig(dequantize=True),
            attn_implementation="eager",
        )
    with torch.inference_mode():
        prompt, text = (model(input_ids=torch.tensor([tokens]), use_cache=False) for tokens in (PROMPT, passage))
    return Plain(prompt.logits[0], text.logits[0].log_softmax(-1))


@pytest.fixture(scope="module")
def opened(default_model: Path) -> OpenedModel:
    return open_model(ModelSettings(path=str(default_model)), progress=lambda _: None)


@pytest.fixture(scope="module")
def module(opened: OpenedModel) -> PreTrainedModel:
    return read_module(opened, torch.float32)


@pytest.fixture(scope="module")
def on_torch(module: PreTrainedModel) -> Forward:
    return make_forward(module, num_blocks=72, block_size=BLOCK_SIZE, max_rows=64)


@pytest.fixture(scope="module", params=[str(kernels) for kernels in every_kernels()])
def native(request: pytest.FixtureRequest, opened: OpenedModel) -> Iterator[NativeForward]:
    settings = ModelSettings(path=str(opened.path), kernels=request.param, num_threads=2)
    parts = assemble(opened, settings, CacheSettings(block_size=BLOCK_SIZE), progress=lambda _: None)
    with torch.inference_mode():
        forward = parts.make_forward(Sizes(NUM_BLOCKS, BLOCK_SIZE, MAX_ROWS))
        assert isinstance(forward, NativeForward)
        forward.storage.poison(range(NUM_BLOCKS))
    yield forward
    forward.close()


def in_chunks(forward: NativeForward, tokens: list[int], size: int, blocks: list[int]) -> Tensor:
    parts = [(start, tokens[start : start + size]) for start in range(0, len(tokens), size)]
    return torch.cat([run(forward, (start, chunk, blocks))[0] for start, chunk in parts])


def test_it_is_opened_as_what_its_file_says(opened: OpenedModel, default_model: Path) -> None:
    assert opened.config.model_type == "llama"
    assert opened.context_length == 8192
    assert opened.config.vocab_size == 49_152
    assert opened.path == default_model


def test_its_module_holds_its_weights_once_and_unpacked(module: PreTrainedModel) -> None:
    assert {parameter.dtype for parameter in module.parameters()} == {torch.float32}
    assert sum(parameter.numel() for parameter in module.parameters()) == 134_515_008
    assert module.get_output_embeddings().weight is module.get_input_embeddings().weight


def test_torch_answers_as_plain_transformers_does(on_torch: Forward, plain: Plain) -> None:
    (ours,) = run(on_torch, (0, PROMPT, TABLES[0]))

    assert torch.equal(ours.argmax(-1), plain.prompt.argmax(-1))
    torch.testing.assert_close(ours, plain.prompt, atol=2e-3, rtol=0)


def test_native_kernels_keep_the_bits_of_the_file(native: NativeForward) -> None:
    assert native.weights == "int4+int8"
    assert native.storage.layout.dtype == "bfloat16"


def test_native_kernels_lose_nothing_that_shows(native: NativeForward, plain: Plain, passage: list[int]) -> None:
    logits = in_chunks(native, passage, MAX_ROWS, list(range(80)))

    ours = logits.log_softmax(-1)
    divergence = (plain.passage.exp() * (plain.passage - ours)).sum(-1)
    agreeing = (ours.argmax(-1) == plain.passage.argmax(-1)).double().mean()
    assert divergence.mean() < 0.003
    assert agreeing >= 0.99


def test_a_native_prompt_has_the_same_bits_in_any_chunks(native: NativeForward, passage: list[int]) -> None:
    tokens, blocks = passage[:270], list(range(60, 40, -1))
    whole = in_chunks(native, tokens, MAX_ROWS, list(range(20)))

    in_parts = in_chunks(native, tokens[:240], 77, blocks)
    one_by_one = torch.cat([run(native, (at, [tokens[at]], blocks))[0] for at in range(240, 270)])

    assert torch.equal(torch.cat([in_parts, one_by_one]), whole)


def test_a_native_prompt_has_the_same_bits_behind_a_prefix_hit(native: NativeForward, passage: list[int]) -> None:
    tokens = passage[:300]
    whole = in_chunks(native, tokens, MAX_ROWS, list(range(20)))

    (rest,) = run(native, (272, tokens[272:], [*range(17), 30, 31]))

    assert torch.equal(rest, whole[272:])


@pytest.mark.parametrize("count", [1, 2, 3, 5, 8, 16, 17, 33, 64])
def test_a_natively_decoded_row_has_the_same_bits_among_any_number_of_rows(
    native: NativeForward, native_last_logits: list[Tensor], count: int
) -> None:
    chosen = list(zip(sequences(64), TABLES, strict=True))[-count:]

    decoded = run(native, *((len(tokens) - 1, tokens[-1:], table) for tokens, table in chosen))

    assert all(
        torch.equal(ours[0], expected) for ours, expected in zip(decoded, native_last_logits[-count:], strict=True)
    )


@pytest.fixture(scope="module")
def native_last_logits(native: NativeForward) -> list[Tensor]:
    """Those of the last token of each of 64 sequences, each alone in a step; what came before stays in the cache."""
    return [run(native, (0, tokens, table))[0][-1] for tokens, table in zip(sequences(64), TABLES, strict=True)]


@pytest.fixture(scope="module")
def last_logits(on_torch: Forward) -> list[Tensor]:
    """Those of each sequence's last token on torch, the sequence alone in each step."""
    return [run(on_torch, (0, tokens, table))[0][-1] for tokens, table in zip(sequences(17), TABLES, strict=False)]


@pytest.mark.parametrize("num_sequences", [1, 2, 3, 5, 8, 11, 16, 17])
def test_a_row_decoded_on_torch_has_the_same_bits_among_any_number_of_rows(
    on_torch: Forward, last_logits: list[Tensor], num_sequences: int
) -> None:
    chosen = list(zip(sequences(num_sequences), TABLES, strict=False))
    for tokens, table in chosen:
        run(on_torch, (0, tokens[:-1], table))

    decoded = run(on_torch, *((len(tokens) - 1, tokens[-1:], table) for tokens, table in chosen))

    assert all(torch.equal(ours[0], expected) for ours, expected in zip(decoded, last_logits, strict=False))


def test_a_row_decoded_on_torch_has_the_same_bits_beside_a_prompt(on_torch: Forward, last_logits: list[Tensor]) -> None:
    decoded, prompt = sequences(17)[3], sequences(17)[9]
    run(on_torch, (0, decoded[:-1], TABLES[3]))

    ours, beside = run(on_torch, (len(decoded) - 1, decoded[-1:], TABLES[3]), (0, prompt, TABLES[9]))

    assert torch.equal(ours[0], last_logits[3])
    assert torch.equal(beside[-1], last_logits[9])
