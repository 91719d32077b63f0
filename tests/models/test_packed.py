"""Modules of `transformers` with the native kernels in them, against plain ones and in every company and cut."""

from collections.abc import Iterator

import pytest
import torch
from transformers import PreTrainedModel

from engine.errors import ModelUnsupported
from engine.model.kernels.choice import Kernels
from engine.model.packed_forward import PackedForward
from engine.model.precision import Precision
from engine.step import Chunk, Plan, Table, Ticket
from tests.models.architectures import ARCHITECTURES, OTHERS, VOCABULARY_SIZE, make_model, plain_logits
from tests.models.case import NUM_BLOCKS, Case, random_sequences, same_bits
from tests.models.support import every_kernels, make_packed, run

CONFIGS = ARCHITECTURES | OTHERS
NAMES = [*OTHERS, "llama", "llama-mqa", "gpt2", "gemma2", "qwen2-window", "phi3-longrope"]
SEQUENCES = random_sequences((300, 70, 33))  # past the windows and one split of the context
FORMATS: list[tuple[Precision, str]] = [("float32", "float32"), ("auto", "bfloat16"), ("int8", "int8")]


@pytest.fixture(params=every_kernels(), ids=str)
def kernels(request: pytest.FixtureRequest) -> Kernels:
    found: Kernels = request.param
    return found


@pytest.fixture
def llama(kernels: Kernels) -> Iterator[PackedForward]:
    forward = make_packed(make_model(CONFIGS["llama"]()), kernels, max_rows=512)
    yield forward
    forward.close()


@pytest.mark.parametrize("name", NAMES)
def test_float32_logits_are_those_of_plain_transformers(name: str, kernels: Kernels) -> None:
    model = make_model(CONFIGS[name]())
    plain = [plain_logits(model, tokens) for tokens in SEQUENCES]
    forward = make_packed(model, kernels, max_rows=512)

    ours = Case(forward, SEQUENCES).alone()

    worst = max(float((a - b).abs().max() / b.abs().max()) for a, b in zip(ours, plain, strict=True))
    assert worst < 1e-4
    forward.close()


@pytest.mark.parametrize(
    "name", ["starcoder2", "llama-mqa", "gpt2", "gemma2", "qwen2-moe", "deepseek-v3", "llama4", "gemma3n"]
)
@pytest.mark.parametrize(("weights", "cache"), FORMATS)
def test_a_sequence_has_the_same_bits_in_every_company_and_cut(
    name: str, weights: Precision, cache: str, kernels: Kernels
) -> None:
    model = make_model(CONFIGS[name]()).bfloat16() if weights == "auto" else make_model(CONFIGS[name]())
    forward = make_packed(model, kernels, weights=weights, cache=cache, num_blocks=NUM_BLOCKS, max_rows=512)
    case = Case(forward, SEQUENCES)
    alone = case.alone()

    assert same_bits(case.batched(), alone), "batched"
    assert same_bits(case.chunked(60), alone), "in chunks of up to 60"
    assert same_bits([case.token_by_token(1)], alone[1:2]), "token by token"
    assert same_bits([case.behind_a_hit(17)], [alone[0][17 * 16 :]]), "behind a hit"
    forward.close()


@pytest.mark.parametrize("weights", ["float32", "int8"])
def test_any_number_of_threads_has_the_same_bits(kernels: Kernels, weights: Precision) -> None:
    logits = []
    for num_threads in (1, 2, 3):
        model = make_model(CONFIGS["llama"]())
        forward = make_packed(model, kernels, weights=weights, max_rows=512, num_threads=num_threads)
        logits.append(Case(forward, SEQUENCES).batched())
        forward.close()

    assert all(same_bits(ours, logits[0]) for ours in logits)


def test_every_layer_calls_our_attention_once_a_step(llama: PackedForward) -> None:
    run(llama, (0, SEQUENCES[2], [0, 1, 2]))

    assert llama.attention.calls == {0: 1, 1: 1}


def test_a_step_that_needs_no_logits_gives_none(llama: PackedForward) -> None:
    with torch.inference_mode():
        logits = llama.run(Plan(1, (Chunk(Ticket("s", 0, 1, 0, (Table((4, 2, 0)),)), tuple(SEQUENCES[2])),)))

    assert logits.shape == (0, VOCABULARY_SIZE)


@pytest.mark.parametrize(
    ("weights", "kept"), [("auto", "float32"), ("bfloat16", "bfloat16"), ("int8", "int8"), ("int4", "int4")]
)
def test_it_tells_the_bits_that_it_keeps(weights: Precision, kept: str) -> None:
    forward = make_packed(make_model(CONFIGS["llama"]()), every_kernels()[0], weights=weights)

    assert forward.weights == kept
    forward.close()


def test_no_linear_layer_keeps_its_own_matrix(llama: PackedForward) -> None:
    model = llama._model
    assert isinstance(model, PreTrainedModel)

    matrices = [name for name, parameter in model.named_parameters() if parameter.ndim == 2]

    assert matrices == ["model.embed_tokens.weight"]


def test_torch_has_fewer_threads_where_more_make_rows_depend_on_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "engine.model.packed_forward.settle_paddings",
        lambda *_, **__: () if torch.get_num_threads() > 2 else (16, 256),
    )

    forward = make_packed(make_model(CONFIGS["llama"]()), every_kernels()[0], num_threads=4)

    assert (torch.get_num_threads(), forward.paddings) == (2, (16, 256))
    forward.close()


def test_a_machine_on_which_no_padding_agrees_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("engine.model.packed_forward.settle_paddings", lambda *_, **__: ())

    with pytest.raises(ModelUnsupported, match="no number of rows up to 256"):
        make_packed(make_model(CONFIGS["llama"]()), every_kernels()[0])
