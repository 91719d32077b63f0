"""Each architecture through the straight-line decoder, at every level that this CPU has.

Against plain `transformers`, and against itself in every company and cut.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import pytest
import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from engine.model.encoding import encode
from engine.model.kernels.choice import Kernels
from engine.model.kernels.native import Level
from engine.model.precision import Precision, encode_as
from engine.request import Sampling
from engine.step import Choose, Chunk, Plan, Score, Table, Ticket
from tests.models.architectures import (
    ARCHITECTURES,
    EXPERTS,
    VARIANTS,
    VOCABULARY_SIZE,
    make_model,
    plain_logits,
)
from tests.models.case import NUM_BLOCKS, Case, random_sequences, same_bits
from tests.models.support import every_kernels, make_native, run

CONFIGS = ARCHITECTURES | VARIANTS | EXPERTS
SEQUENCES = random_sequences((300, 70, 33))  # past the windows and one split of the context
EXACT = 1e-4  # of the largest logit, in float32
SHORT: list[tuple[Precision, str]] = [("bfloat16", "bfloat16"), ("int8", "int8"), ("int4", "bfloat16")]


@dataclass(frozen=True)
class Original:
    model: PreTrainedModel
    plain: list[Tensor]


@pytest.fixture(scope="module", params=CONFIGS)
def original(request: pytest.FixtureRequest) -> Original:
    model = make_model(CONFIGS[request.param]())
    return Original(model, [plain_logits(model, tokens) for tokens in SEQUENCES])


@pytest.fixture(scope="module", params=every_kernels(), ids=str)
def kernels(request: pytest.FixtureRequest) -> Kernels:
    found: Kernels = request.param
    return found


@pytest.fixture
def exact(original: Original, kernels: Kernels) -> Iterator[Case]:
    yield from opened(original.model, kernels, "float32", "float32")


def opened(model: PreTrainedModel, kernels: Kernels, weights: Precision, cache: str) -> Iterator[Case]:
    forward = make_native(model, kernels, weights=weights, cache=cache, num_blocks=NUM_BLOCKS, max_rows=512)
    yield Case(forward, SEQUENCES)
    forward.close()


def error(ours: list[Tensor], plain: list[Tensor]) -> float:
    """The largest difference, of the largest logit."""
    worst = max((logits - expected).abs().max() for logits, expected in zip(ours, plain, strict=True))
    return float(worst / max(expected.abs().max() for expected in plain))


def check_company(case: Case) -> None:
    """Every way to compute a sequence has the bits of computing it alone."""
    alone = case.alone()
    assert same_bits(case.batched(), alone), "batched"
    assert same_bits(case.chunked(7), alone), "in chunks of up to 7"
    assert same_bits(case.chunked(60), alone), "in chunks of up to 60"
    assert same_bits([case.token_by_token(0)], alone[:1]), "token by token"
    hit = 17 * case.forward.storage.block_size  # past a split of the context
    assert same_bits([case.behind_a_hit(3), case.behind_a_hit(17)], [alone[0][48:], alone[0][hit:]]), "behind a hit"


def test_float32_logits_are_those_of_plain_transformers(exact: Case, original: Original) -> None:
    worst = error(exact.alone(), original.plain)

    assert worst < EXACT


def test_a_sequence_has_the_same_bits_in_every_company_and_cut(exact: Case) -> None:
    check_company(exact)


@pytest.mark.parametrize(("weights", "cache"), [("float32", "float32"), *SHORT])
def test_the_vector_levels_have_the_same_bits(original: Original, weights: Precision, cache: str) -> None:
    levels = [found for found in every_kernels() if found.level is not Level.AMX]
    logits = [case.alone() for found in levels for case in opened(original.model, found, weights, cache)]

    assert all(same_bits(ours, logits[0]) for ours in logits)


@pytest.mark.parametrize(("weights", "cache"), SHORT)
def test_short_weights_and_caches_have_the_same_bits_in_every_company_and_cut(
    original: Original, kernels: Kernels, weights: Precision, cache: str
) -> None:
    for case in opened(original.model, kernels, weights, cache):
        check_company(case)


@pytest.mark.parametrize("name", ["llama", "llama-odd", "gpt2", "gpt-neox", "phi3"])
@pytest.mark.parametrize("weights", ["bfloat16", "int8", "int4"])
def test_short_weights_are_what_they_are_decoded_to(name: str, weights: Precision, kernels: Kernels) -> None:
    decoded = make_model(CONFIGS[name]())
    decode_weights(decoded, weights)
    plain = [plain_logits(decoded, tokens) for tokens in SEQUENCES]

    for case in opened(make_model(CONFIGS[name]()), kernels, weights, "float32"):
        worst = error(case.alone(), plain)
        assert worst < EXACT


def decode_weights(model: nn.Module, weights: Precision) -> None:
    """Put in the place of each matrix what it is in short."""
    transposed = any(name.startswith("transformer.h") for name, _ in model.named_parameters())
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.ndim == 2:
                turned = transposed and ".h." in name
                dense = encode_as(encode(parameter.t() if turned else parameter), weights).dense()
                parameter.copy_(dense.t() if turned else dense)


@pytest.mark.parametrize(("cache", "most"), [("bfloat16", 0.05), ("int8", 0.1)])
def test_short_caches_change_little(kernels: Kernels, cache: str, most: float) -> None:
    model = make_model(CONFIGS["llama"]())
    plain = [plain_logits(model, tokens) for tokens in SEQUENCES]

    for case in opened(model, kernels, "float32", cache):
        worst = error(case.alone(), plain)
        assert EXACT < worst < most


def test_an_int8_cache_bears_norms_that_single_out_values_of_keys(kernels: Kernels) -> None:
    model = make_model(CONFIGS["qwen3"]())
    with torch.no_grad():
        for layer in model.model.layers:
            layer.self_attn.k_norm.weight[3] *= 40
            layer.self_attn.q_norm.weight[3] /= 40
    plain = [plain_logits(model, tokens) for tokens in SEQUENCES]

    for case in opened(model, kernels, "float32", "int8"):
        worst = error(case.alone(), plain)
        assert worst < 0.1


@pytest.fixture(scope="module")
def wide() -> PreTrainedModel:
    """A model whose layers are worth the work of several threads."""
    config = ARCHITECTURES["llama"]()
    config.hidden_size, config.intermediate_size, config.head_dim = 192, 512, 48
    return make_model(config)


@pytest.mark.parametrize(("weights", "cache"), [("float32", "float32"), *SHORT])
def test_any_number_of_threads_has_the_same_bits(
    wide: PreTrainedModel, kernels: Kernels, weights: Precision, cache: str
) -> None:
    alone, batched = [], []
    for num_threads in (1, 2, 3, 4):
        forward = make_native(wide, kernels, weights=weights, cache=cache, max_rows=512, num_threads=num_threads)
        case = Case(forward, SEQUENCES)
        alone.append(case.alone())
        batched.append(case.batched())
        forward.close()

    assert all(same_bits(ours, alone[0]) for ours in (*alone, *batched))


@pytest.mark.parametrize(("weights", "cache"), [("float32", "float32"), *SHORT])
def test_a_decoded_token_has_the_same_bits_among_any_number_of_sequences(
    wide: PreTrainedModel, kernels: Kernels, weights: Precision, cache: str
) -> None:
    sequences = random_sequences(range(1, 65))
    tables = [range(index * 4, index * 4 + 4) for index in range(64)]
    forward = make_native(wide, kernels, weights=weights, cache=cache, num_blocks=256, max_rows=64)
    whole = [run(forward, (0, tokens, table))[0][-1] for tokens, table in zip(sequences, tables, strict=True)]

    for count in (2, 3, 4, 5, 7, 8, 13, 16, 17, 31, 32, 33, 64):
        chosen = list(zip(sequences, tables, strict=True))[-count:]
        decoded = run(forward, *((len(tokens) - 1, tokens[-1:], table) for tokens, table in chosen))
        assert same_bits([logits[0] for logits in decoded], whole[-count:]), count
    forward.close()


def test_a_step_that_needs_no_logits_gives_none(wide: PreTrainedModel, kernels: Kernels) -> None:
    forward = make_native(wide, kernels)
    tokens = tuple(SEQUENCES[1])

    logits = forward.run(Plan(1, (Chunk(Ticket("s", 0, 1, 0, (Table((4, 2, 0, 1, 3)),)), tokens),)))

    assert logits.shape == (0, VOCABULARY_SIZE)
    forward.close()


def test_scored_rows_and_the_chosen_one_come_in_their_order(wide: PreTrainedModel, kernels: Kernels) -> None:
    forward = make_native(wide, kernels)
    tokens, other = tuple(SEQUENCES[1]), tuple(SEQUENCES[2])
    every = run(forward, (0, tokens, range(5)), (0, other, range(5, 8)))
    choose = Choose(Sampling(seed=0), choice=0, output_index=0)
    chunks = (
        Chunk(Ticket("a", 0, 1, 16, (Table(tuple(range(5))),)), tokens[16:], choose, Score(20, (1, 2, 3), 0)),
        Chunk(Ticket("b", 0, 1, 0, (Table((5, 6, 7)),)), other, choose),
    )

    logits = forward.run(Plan(1, chunks))

    assert torch.equal(logits, torch.cat([every[0][20:23], every[0][-1:], every[1][-1:]]))
    forward.close()


def test_a_native_model_tells_the_bits_that_it_keeps(wide: PreTrainedModel, kernels: Kernels) -> None:
    kept = [make_native(wide, kernels, weights=weights).weights for weights in ("float32", "bfloat16", "int8", "int4")]

    assert kept == ["float32", "bfloat16", "int8", "int4"]
