"""Each architecture against plain `transformers`, and against itself in every company and cut."""

from dataclasses import dataclass

import pytest
import torch
from torch import Tensor

from engine.model.forward import Forward
from tests.models.architectures import ARCHITECTURES, VOCABULARY_SIZE, make_model, plain_logits
from tests.models.support import make_forward, run

LENGTHS = (150, 70, 33)  # past the windows and one split of the context
BLOCK_SIZE = 8
NUM_BLOCKS = 64


@dataclass(frozen=True)
class Case:
    forward: Forward
    sequences: list[list[int]]
    tables: list[list[int]]  # scattered over the cache
    plain: list[Tensor]

    def alone(self, index: int) -> Tensor:
        """One sequence in one batch of its own, over a cache that is NaN elsewhere."""
        self.forward.storage.poison(range(NUM_BLOCKS))
        return run(self.forward, (0, self.sequences[index], self.tables[index]))[0]


@pytest.fixture(scope="module", params=ARCHITECTURES)
def case(request: pytest.FixtureRequest) -> Case:
    model = make_model(ARCHITECTURES[request.param]())
    generator = torch.Generator().manual_seed(1)
    sequences = [torch.randint(3, VOCABULARY_SIZE, (length,), generator=generator).tolist() for length in LENGTHS]
    plain = [plain_logits(model, tokens) for tokens in sequences]
    blocks = torch.randperm(NUM_BLOCKS, generator=generator).tolist()
    tables = [blocks[:19], blocks[19:28], blocks[28:33]]
    return Case(make_forward(model, num_blocks=NUM_BLOCKS, block_size=BLOCK_SIZE), sequences, tables, plain)


def test_logits_are_those_of_plain_transformers(case: Case) -> None:
    for index, plain in enumerate(case.plain):
        torch.testing.assert_close(case.alone(index), plain, atol=5e-5, rtol=0)


def test_a_sequence_has_the_same_bits_alone_and_batched(case: Case) -> None:
    alone = [case.alone(index) for index in range(len(LENGTHS))]
    case.forward.storage.poison(range(NUM_BLOCKS))

    parts = [(0, tokens, table) for tokens, table in zip(case.sequences, case.tables, strict=True)]
    batched = run(case.forward, *parts)

    assert all(torch.equal(ours, expected) for ours, expected in zip(batched, alone, strict=True))


@pytest.mark.parametrize("most", [7, 60])
def test_a_sequence_has_the_same_bits_in_any_chunks_beside_any_others(case: Case, most: int) -> None:
    alone = [case.alone(index) for index in range(len(LENGTHS))]
    case.forward.storage.poison(range(NUM_BLOCKS))
    generator = torch.Generator().manual_seed(most)
    pieces: list[list[Tensor]] = [[] for _ in LENGTHS]
    done = [0] * len(LENGTHS)

    while done != list(LENGTHS):
        parts, owners = [], []
        for index, length in enumerate(LENGTHS):
            size = int(torch.randint(0, most + 1, (1,), generator=generator))
            tokens = case.sequences[index][done[index] : min(done[index] + size, length)]
            if tokens:
                parts.append((done[index], tokens, case.tables[index]))
                owners.append(index)
                done[index] += len(tokens)
        for index, logits in zip(owners, run(case.forward, *parts) if parts else [], strict=True):
            pieces[index].append(logits)

    assert all(torch.equal(torch.cat(ours), expected) for ours, expected in zip(pieces, alone, strict=True))


def test_a_sequence_has_the_same_bits_token_by_token(case: Case) -> None:
    alone = case.alone(1)
    case.forward.storage.poison(range(NUM_BLOCKS))

    tokens, table = case.sequences[1], case.tables[1]
    one_by_one = [run(case.forward, (at, [token], table))[0] for at, token in enumerate(tokens)]

    assert torch.equal(torch.cat(one_by_one), alone)


def test_a_shared_prefix_gives_the_bits_of_one_s_own(case: Case) -> None:
    case.forward.storage.poison(range(NUM_BLOCKS))
    prefix, rest = case.sequences[0][:40], case.sequences[1][:20]
    shared, own = case.tables[0][:5], case.tables[1][:3]
    expected = run(case.forward, (0, [*prefix, *rest], case.tables[2] + case.tables[1][3:6]))[0][40:]

    run(case.forward, (0, case.sequences[0], case.tables[0]))
    ours, other = run(case.forward, (40, rest, shared + own), (149, case.sequences[0][149:], case.tables[0]))

    assert torch.equal(ours, expected)
    assert torch.equal(other, case.alone(0)[149:])


def test_every_layer_calls_our_attention_once_a_step(case: Case) -> None:
    before = list(case.forward.attention.calls)

    run(case.forward, (0, case.sequences[2], case.tables[2]))

    assert case.forward.attention.calls == [calls + 1 for calls in before]


def test_a_bfloat16_model_has_the_same_bits_alone_batched_and_token_by_token() -> None:
    forward = make_forward(make_model(ARCHITECTURES["llama"]()).bfloat16(), block_size=BLOCK_SIZE)
    first, second = [5 + at % 80 for at in range(140)], [7 + at % 50 for at in range(30)]
    alone = run(forward, (0, first, range(18)))[0]

    batched = run(forward, (0, second, range(20, 24)), (0, first, range(18)))[1]
    one_by_one = [run(forward, (at, [token], range(30, 48)))[0] for at, token in enumerate(first)]

    assert alone.dtype == torch.float32
    assert torch.equal(batched, alone)
    assert torch.equal(torch.cat(one_by_one), alone)
