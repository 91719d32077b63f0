"""Models with recurrent layers on both paths of modules, against plain `transformers` and in every company and cut."""

from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from torch import Tensor

from engine.model.forward import Forward
from engine.model.kernels.choice import Kernels
from engine.model.packed_forward import PackedForward
from tests.models.architectures import make_model, plain_logits
from tests.models.case import NUM_BLOCKS, Case, random_sequences, same_bits
from tests.models.recurrent import RECURRENT
from tests.models.support import every_kernels, make_forward, make_packed, run

SEQUENCES = random_sequences((150, 70, 33))
BLOCK_SIZE = 16
PATHS: list[Kernels | None] = [None, *every_kernels()]


@dataclass(frozen=True)
class Tried:
    case: Case
    forward: Forward | PackedForward
    plain: list[Tensor]
    alone: list[Tensor]


@pytest.fixture(scope="module", params=PATHS, ids=lambda path: "torch" if path is None else str(path))
def path(request: pytest.FixtureRequest) -> Kernels | None:
    found: Kernels | None = request.param
    return found


@pytest.fixture(scope="module", params=RECURRENT)
def tried(request: pytest.FixtureRequest, path: Kernels | None) -> Iterator[Tried]:
    model = make_model(RECURRENT[request.param]())
    plain = [plain_logits(model, tokens) for tokens in SEQUENCES]
    forward: Forward | PackedForward
    if path is None:
        forward = make_forward(model, num_blocks=NUM_BLOCKS, block_size=BLOCK_SIZE)
    else:
        forward = make_packed(model, path, num_blocks=NUM_BLOCKS)
    case = Case(forward, SEQUENCES)
    yield Tried(case, forward, plain, case.alone())
    forward.close()


def test_logits_are_those_of_plain_transformers(tried: Tried) -> None:
    worst = max(float((a - b).abs().max() / b.abs().max()) for a, b in zip(tried.alone, tried.plain, strict=True))

    assert worst < 1e-4


def test_a_sequence_has_the_same_bits_in_every_company_and_cut(tried: Tried) -> None:
    assert same_bits(tried.case.batched(), tried.alone), "batched"
    assert same_bits(tried.case.chunked(60), tried.alone), "in chunks of up to 60"
    assert same_bits(tried.case.chunked(3), tried.alone), "in chunks of up to 3"
    assert same_bits([tried.case.token_by_token(2)], tried.alone[2:]), "token by token"


def test_a_checkpoint_gives_the_bits_of_one_s_own_prefix(tried: Tried) -> None:
    assert same_bits([tried.case.behind_a_hit(5)], [tried.alone[0][5 * BLOCK_SIZE :]])


def test_every_recurrent_layer_is_ours_and_is_called_once_a_step(tried: Tried) -> None:
    before = dict(tried.forward.recurrence.calls)

    run(tried.forward, (0, SEQUENCES[2], tried.case.tables[2]))

    assert before
    assert tried.forward.recurrence.calls == {layer: count + 1 for layer, count in before.items()}
