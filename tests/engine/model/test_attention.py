from dataclasses import dataclass

import pytest
import torch
from torch import Tensor, nn

from engine.cache.layout import CacheGroup, Layout, RowShape
from engine.cache.storage import KVStorage
from engine.errors import ModelUnsupported
from engine.model.attention import NAME, PagedAttention, attach, attend, settle_geometries
from engine.model.batch import Span
from engine.step import Table

NUM_HEADS, NUM_KV_HEADS, KEY_DIM, VALUE_DIM = 6, 2, 32, 16
BLOCK_SIZE, NUM_BLOCKS = 8, 120
LENGTHS = (300, 45)


@dataclass(frozen=True)
class Options:
    window: int | None = None
    softcap: float | None = None
    sinks: Tensor | None = None


VARIANTS = {
    "plain": Options(),
    "window": Options(window=37),
    "softcap": Options(softcap=2.0),
    "sinks": Options(sinks=torch.linspace(-2, 3, NUM_HEADS)),
    "all": Options(window=150, softcap=3.0, sinks=torch.linspace(-2, 3, NUM_HEADS)),
}


@dataclass(frozen=True)
class Sequence:
    query: Tensor  # [heads, positions, dim]
    key: Tensor  # [kv heads, positions, dim]
    value: Tensor
    blocks: tuple[int, ...]


def make_paged(dtype: str = "float32", *, num_blocks: int = NUM_BLOCKS) -> PagedAttention:
    layout = Layout((CacheGroup((0,), RowShape(NUM_KV_HEADS, KEY_DIM, VALUE_DIM, dtype)),))
    storage = KVStorage(layout, num_units=num_blocks, block_size=BLOCK_SIZE, device=torch.device("cpu"))
    storage.poison(range(num_blocks))
    return PagedAttention(storage, settle_geometries(storage, NUM_HEADS))


def make_sequences() -> list[Sequence]:
    generator = torch.Generator().manual_seed(0)
    blocks = torch.randperm(NUM_BLOCKS, generator=generator).tolist()
    sequences = []
    for length in LENGTHS:
        num_blocks = -(-length // BLOCK_SIZE)
        query, key, value = (
            torch.randn(heads, length, dim, generator=generator)
            for heads, dim in ((NUM_HEADS, KEY_DIM), (NUM_KV_HEADS, KEY_DIM), (NUM_KV_HEADS, VALUE_DIM))
        )
        sequences.append(Sequence(query, key, value, tuple(blocks[:num_blocks])))
        del blocks[:num_blocks]
    return sequences


def run(paged: PagedAttention, parts: list[tuple[Sequence, int, int]], options: Options) -> list[Tensor]:
    """The outputs [positions, heads, dim] of some positions of each sequence, in one batch with padding."""
    spans, row = [], 0
    for sequence, start, stop in parts:
        spans.append(Span(row, start, stop - start, (Table(sequence.blocks),)))
        row += stop - start
    padding = torch.full((NUM_HEADS, 3, KEY_DIM), torch.nan)
    query = torch.cat([*(s.query[:, start:stop] for s, start, stop in parts), padding], dim=1)
    key = torch.cat([*(s.key[:, start:stop] for s, start, stop in parts), padding[:NUM_KV_HEADS]], dim=1)
    values = [*(s.value[:, start:stop] for s, start, stop in parts), padding[:NUM_KV_HEADS, :, :VALUE_DIM]]
    paged.begin(spans)
    out = paged.attend(
        0, query, key, torch.cat(values, dim=1), window=options.window, softcap=options.softcap, sinks=options.sinks
    )
    return list(out[:row].split([span.length for span in spans]))


def reference(sequence: Sequence, options: Options) -> Tensor:
    """Dense attention in float64, [positions, heads, dim]."""
    group = NUM_HEADS // NUM_KV_HEADS
    key, value = (each.double().repeat_interleave(group, dim=0) for each in (sequence.key, sequence.value))
    scores = sequence.query.double() @ key.transpose(1, 2)
    if options.softcap is not None:
        scores = torch.tanh(scores / options.softcap) * options.softcap
    positions = torch.arange(scores.shape[-1])
    distance = positions[:, None] - positions
    seen = (distance >= 0) & (distance < (options.window or len(positions)))
    scores = scores.masked_fill(~seen, -torch.inf)
    if options.sinks is not None:
        scores = torch.cat([scores, options.sinks.double()[:, None, None].expand(-1, len(positions), 1)], dim=-1)
    weights = scores.softmax(-1)[..., : len(positions)]
    return (weights @ value).transpose(0, 1)


def run_alone(sequence: Sequence, options: Options) -> Tensor:
    return run(make_paged(), [(sequence, 0, sequence.query.shape[1])], options)[0]


@pytest.mark.parametrize("options", VARIANTS.values(), ids=VARIANTS)
def test_attention_is_that_of_the_dense_formula(options: Options) -> None:
    for sequence in make_sequences():
        expected = reference(sequence, options)

        torch.testing.assert_close(run_alone(sequence, options).double(), expected, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("options", VARIANTS.values(), ids=VARIANTS)
def test_two_sequences_in_a_batch_have_the_bits_that_each_has_alone(options: Options) -> None:
    first, second = make_sequences()
    alone = [run_alone(first, options), run_alone(second, options)]

    together = run(make_paged(), [(first, 0, LENGTHS[0]), (second, 0, LENGTHS[1])], options)

    assert all(torch.equal(ours, expected) for ours, expected in zip(together, alone, strict=True))


@pytest.mark.parametrize("options", VARIANTS.values(), ids=VARIANTS)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_the_bits_do_not_depend_on_the_chunks(options: Options, dtype: str) -> None:
    first, second = make_sequences()
    whole = run(make_paged(dtype), [(first, 0, LENGTHS[0])], options)[0]

    paged, pieces, start = make_paged(dtype), [], 0
    for index, size in enumerate((1, 70, 3, 128, 1, 1, 96)):
        piece, _ = run(paged, [(first, start, start + size), (second, index, index + 1)], options)
        pieces.append(piece)
        start += size

    assert start == LENGTHS[0]
    assert torch.equal(torch.cat(pieces), whole)


@pytest.mark.parametrize("num_threads", [1, 2])
def test_many_splits_are_joined_in_their_order_whatever_else_is_computed(num_threads: int) -> None:
    torch.set_num_threads(num_threads)
    length, generator = 1000, torch.Generator().manual_seed(3)
    shapes = ((NUM_HEADS, KEY_DIM), (NUM_KV_HEADS, KEY_DIM), (NUM_KV_HEADS, VALUE_DIM))
    query, key, value = (torch.randn(heads, length, dim, generator=generator) * 3 for heads, dim in shapes)
    longest = Sequence(query, key, value, tuple(range(125)))
    whole = run(make_paged(num_blocks=130), [(longest, 0, length)], Options())[0]
    paged = make_paged(num_blocks=130)
    run(paged, [(longest, 0, 990)], Options())

    for position in range(990, length):
        others = [(longest, at, at + 1) for at in (130, 900, 5, 400)]
        ours = run(paged, [*others[:2], (longest, position, position + 1), *others[2:]], Options())[2]

        assert torch.equal(ours[0], whole[position])


def test_what_lies_behind_a_sequence_is_never_used() -> None:
    first, _ = make_sequences()
    paged = make_paged()
    expected = run_alone(first, Options())

    run(paged, [(first, 0, 300)], Options())
    rolled_back = run(paged, [(first, 200, 260)], Options())[0]

    assert torch.equal(rolled_back, expected[200:260])


def test_a_sequence_with_nan_spoils_only_itself() -> None:
    first, second = make_sequences()
    expected = run_alone(second, Options())
    first.key[:, 10] = torch.nan

    spoiled, ours = run(make_paged(), [(first, 0, 300), (second, 0, 45)], Options())

    assert spoiled[10:].isnan().all()
    assert torch.equal(ours, expected)


def test_calls_are_counted_by_layer() -> None:
    first, _ = make_sequences()
    paged = make_paged()

    run(paged, [(first, 0, 4)], Options())
    run(paged, [(first, 4, 5)], Options())

    assert paged.calls == {0: 2}


class Layer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer_idx = 0


def test_a_module_without_a_cache_is_refused_by_name() -> None:
    with pytest.raises(ModelUnsupported, match="Layer"):
        attend(Layer(), torch.empty(0), torch.empty(0), torch.empty(0), None)


def test_a_mask_of_the_model_s_own_is_refused() -> None:
    layer = Layer()
    attach(layer, make_paged())

    with pytest.raises(ModelUnsupported, match="Layer brings a mask"):
        attend(layer, torch.empty(0), torch.empty(0), torch.empty(0), torch.empty(1))


def test_a_layer_whose_heads_are_others_than_the_cache_s_is_refused_by_name() -> None:
    layer, paged = Layer(), make_paged()
    attach(layer, paged)
    query, key = torch.zeros(1, NUM_HEADS, 4, KEY_DIM), torch.zeros(1, NUM_KV_HEADS, 4, KEY_DIM)

    with pytest.raises(
        ModelUnsupported, match="Layer makes K and V of 2 kv heads x 32/32, and by the config it is 2 kv heads x 32/16"
    ):
        attend(layer, query, key, key, None)


def test_a_layer_that_the_cache_does_not_have_is_refused_by_name() -> None:
    layer = Layer()
    attach(layer, make_paged())
    layer.layer_idx = 1

    with pytest.raises(ModelUnsupported, match="Layer calls attention, but is no layer of the cache"):
        attend(layer, torch.empty(0), torch.empty(0), torch.empty(0), None)


def test_every_module_that_names_a_layer_is_handed_the_cache() -> None:
    model = nn.Sequential(Layer(), nn.Linear(2, 2))
    paged = make_paged()

    attach(model, paged)

    assert getattr(model[0], NAME) is paged
    assert not hasattr(model[1], NAME)


def test_the_scale_is_the_model_s_or_that_of_the_width() -> None:
    first, _ = make_sequences()
    layer = Layer()
    paged = make_paged()
    attach(layer, paged)
    query, key, value = (each[:, :4].unsqueeze(0) for each in (first.query, first.key, first.value))

    paged.begin((Span(0, 0, 4, (Table(first.blocks),)),))
    by_width, _ = attend(layer, query, key, value, None)
    given, _ = attend(layer, query, key, value, None, scaling=KEY_DIM**-0.5)
    other, _ = attend(layer, query, key, value, None, scaling=1.0)

    assert by_width.shape == (1, 4, NUM_HEADS, VALUE_DIM)
    assert torch.equal(by_width, given)
    assert not torch.equal(by_width, other)


def test_a_machine_on_which_no_tile_agrees_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = torch.bmm
    calls = iter(range(1_000_000))

    def never_the_same(left: Tensor, right: Tensor) -> Tensor:
        return plain(left, right) + next(calls)

    monkeypatch.setattr(torch, "bmm", never_the_same)

    with pytest.raises(ModelUnsupported, match="no shape of an attention tile"):
        make_paged()
