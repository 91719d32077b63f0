"""Each architecture on torch's operators against plain `transformers`, and against itself in every company and cut."""

from dataclasses import dataclass

import pytest
import torch
from torch import Tensor

from engine.model.forward import Forward
from tests.models.architectures import ARCHITECTURES, EXPERTS, OTHERS, make_model, plain_logits
from tests.models.case import NUM_BLOCKS, Case, random_sequences, same_bits
from tests.models.support import make_forward, run

CONFIGS = ARCHITECTURES | EXPERTS | OTHERS
SEQUENCES = random_sequences((150, 70, 33))  # past the windows and one split of the context
BLOCK_SIZE = 8


@dataclass(frozen=True)
class Tried:
    case: Case
    forward: Forward
    plain: list[Tensor]
    alone: list[Tensor]


@pytest.fixture(scope="module", params=CONFIGS)
def tried(request: pytest.FixtureRequest) -> Tried:
    model = make_model(CONFIGS[request.param]())
    plain = [plain_logits(model, tokens) for tokens in SEQUENCES]
    forward = make_forward(model, num_blocks=NUM_BLOCKS, block_size=BLOCK_SIZE)
    case = Case(forward, SEQUENCES)
    return Tried(case, forward, plain, case.alone())


def test_logits_are_those_of_plain_transformers(tried: Tried) -> None:
    for ours, plain in zip(tried.alone, tried.plain, strict=True):
        torch.testing.assert_close(ours, plain, atol=5e-5, rtol=0)


def test_a_sequence_has_the_same_bits_alone_and_batched(tried: Tried) -> None:
    assert same_bits(tried.case.batched(), tried.alone)


@pytest.mark.parametrize("most", [7, 60])
def test_a_sequence_has_the_same_bits_in_any_chunks_beside_any_others(tried: Tried, most: int) -> None:
    assert same_bits(tried.case.chunked(most), tried.alone)


def test_a_sequence_has_the_same_bits_token_by_token(tried: Tried) -> None:
    assert torch.equal(tried.case.token_by_token(1), tried.alone[1])


def test_a_prefix_hit_gives_the_bits_of_one_s_own(tried: Tried) -> None:
    assert torch.equal(tried.case.behind_a_hit(5), tried.alone[0][5 * BLOCK_SIZE :])


def test_every_layer_calls_our_attention_once_a_step(tried: Tried) -> None:
    before = dict(tried.forward.attention.calls)

    run(tried.forward, (0, SEQUENCES[2], tried.case.tables[2]))

    assert tried.forward.attention.calls == {layer: count + 1 for layer, count in before.items()}


@pytest.mark.parametrize("name", ["llama", "mixtral", "deepseek-v3", "llama4"])
def test_a_bfloat16_model_has_the_same_bits_alone_batched_and_token_by_token(name: str) -> None:
    forward = make_forward(make_model(CONFIGS[name]()).bfloat16(), num_blocks=NUM_BLOCKS, block_size=BLOCK_SIZE)
    case = Case(forward, random_sequences((140, 30)))
    alone = case.alone()

    batched, one_by_one = case.batched(), case.token_by_token(0)

    assert alone[0].dtype == torch.float32
    assert same_bits(batched, alone)
    assert torch.equal(one_by_one, alone[0])
