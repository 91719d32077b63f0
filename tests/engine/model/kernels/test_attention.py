"""Attention over the paged cache: against float64, and bit for bit in every company."""

import pytest
import torch
from hypothesis import given, settings, strategies as st
from torch import Tensor

from engine.model.kernels.native import CacheType, Format, Level
from tests.engine.model.kernels.machine import FLOAT_LEVELS, LEVELS, same_bits
from tests.engine.model.kernels.paged import Chunk, Layer, PagedCache, Seen, Shape, Turned, attend

every_level = pytest.mark.parametrize("level", LEVELS, ids=lambda level: level.name)
every_type = pytest.mark.parametrize("type", CacheType, ids=lambda type: type.name)
SIZES = (1, 5, 17, 40, 280)  # of windows and chunks
LENGTHS = st.sampled_from([1, 2, 15, 16, 17, 33, 70, 255, 256, 257, 300])


@st.composite
def shapes(draw: st.DrawFn, type: CacheType) -> Shape:
    group = draw(st.sampled_from([1, 2, 3, 5, 8, 9, 16, 17, 33]))
    block_size = draw(st.sampled_from([16, 32, 48, 64]))
    if draw(st.sampled_from([False, False, True])):
        key_dim, value_dim = draw(st.sampled_from([(32, 16), (20, 20), (72, 48), (576, 512)]))
        return Shape(1, group, key_dim, value_dim, block_size, type, latent=True)
    return Shape(
        kv_heads=draw(st.integers(1, 2)),
        group=group,
        key_dim=draw(st.sampled_from([8, 16, 20, 32, 48, 64, 80, 128])),
        value_dim=draw(st.sampled_from([8, 16, 24, 40, 64, 80, 112])),
        block_size=block_size,
        type=type,
    )


@st.composite
def sights(draw: st.DrawFn, shape: Shape) -> Seen:
    window, chunk = draw(st.sampled_from([(0, 0), *((size, 0) for size in SIZES), *((0, size) for size in SIZES)]))
    softcap = draw(st.sampled_from([0.0, 0.0, 3.0]))
    return Seen(window, chunk, softcap, random_rows(1, shape.heads)[0] if draw(st.booleans()) else None)


def random_rows(num_rows: int, width: int, *, seed: int = 0) -> Tensor:
    return torch.randn(num_rows, width, generator=torch.Generator().manual_seed(seed))


def random_chunks(shape: Shape, lengths: list[int], *, scale: float = 1.0) -> tuple[list[Chunk], int]:
    """Whole sequences whose blocks lie scattered, and how many blocks there are."""
    needed = [-(-length // shape.block_size) for length in lengths]
    num_blocks = sum(needed) + 3
    blocks = torch.randperm(num_blocks, generator=torch.Generator().manual_seed(1)).tolist()
    chunks = []
    for seed, (length, count) in enumerate(zip(lengths, needed, strict=True)):
        table, blocks = tuple(blocks[:count]), blocks[count:]
        chunks.append(Chunk(0, table, random_rows(length, shape.width, seed=seed) * scale))
    return chunks, num_blocks


def parts_of(chunk: Chunk, sizes: list[int], *, shape: Shape, seen: Seen) -> list[Chunk]:
    """The chunk in pieces of these sizes, again and again, each without the blocks that it does not see."""
    parts: list[Chunk] = []
    at = 0
    while at < len(chunk.rows):
        size = sizes[len(parts) % len(sizes)]
        first = first_seen(chunk.start + at, seen) // shape.block_size
        parts.append(Chunk(chunk.start + at, chunk.table[first:], chunk.rows[at : at + size], first))
        at += size
    return parts


def first_seen(position: int, seen: Seen) -> int:
    if seen.chunk:
        return position // seen.chunk * seen.chunk
    return max(0, position + 1 - seen.window) if seen.window else 0


def scaled(shape: Shape) -> Turned:
    return Turned(scale=shape.key_dim**-0.5)


def in_one_step(
    level: Level,
    shape: Shape,
    seen: Seen,
    chunks: list[Chunk],
    num_blocks: int,
    *,
    num_threads: int = 1,
    mixed: bool = False,
    table: int = 0,
) -> Tensor:
    cache = PagedCache(shape, num_blocks, mixed=mixed)
    return Layer(level, cache, turned=scaled(shape), seen=seen, num_threads=num_threads, table=table).step(chunks)


def in_parts(
    level: Level, shape: Shape, seen: Seen, chunk: Chunk, num_blocks: int, sizes: list[int], *, stale: bool = False
) -> Tensor:
    """Each part in a step of its own, with what it does not see poisoned."""
    cache = PagedCache(shape, num_blocks, stale=stale)
    layer = Layer(level, cache, turned=scaled(shape), seen=seen)
    results = []
    for part in parts_of(chunk, sizes, shape=shape, seen=seen):
        cache.poison(chunk.table[: part.first])
        results.append(layer.step([part]))
    return torch.cat(results)


def tolerance(level: Level, type: CacheType) -> float:
    """Of the largest value: AMX rounds queries and weights to bfloat16, all else is float32."""
    return 2.0**-7 if level is Level.AMX and type is not CacheType.F32 else 2e-5


@every_level
@every_type
@settings(max_examples=25)
@given(data=st.data())
def test_a_query_gets_the_values_that_it_sees_mixed_by_their_scores(
    level: Level, type: CacheType, data: st.DataObject
) -> None:
    shape = data.draw(shapes(type))
    seen = data.draw(sights(shape))
    chunks, num_blocks = random_chunks(shape, data.draw(st.lists(LENGTHS, min_size=1, max_size=3)))
    format = data.draw(st.sampled_from(Format))
    cache = PagedCache(shape, num_blocks, mixed=data.draw(st.booleans()))
    table = data.draw(st.integers(0, 2))
    layer = Layer(level, cache, turned=scaled(shape), seen=seen, format=format, table=table)

    out = layer.step(chunks)

    expected = attend(layer, chunks, seen)
    within = tolerance(level, type) * expected.abs().max().item()
    torch.testing.assert_close(out.double(), expected, rtol=0, atol=within)
    assert not layer.padding.any()


@every_level
@every_type
@settings(max_examples=15)
@given(data=st.data())
def test_a_query_gets_the_same_bits_in_every_company_and_every_chunking(
    level: Level, type: CacheType, data: st.DataObject
) -> None:
    shape = data.draw(shapes(type))
    seen = data.draw(sights(shape))
    chunks, num_blocks = random_chunks(shape, data.draw(st.lists(LENGTHS, min_size=2, max_size=4)))
    sizes = data.draw(st.lists(st.sampled_from([1, 2, 7, 32, 100, 256]), min_size=1, max_size=3))

    together = in_one_step(level, shape, seen, chunks, num_blocks, num_threads=data.draw(st.integers(1, 3)))

    alone = [in_one_step(level, shape, seen, [chunk], num_blocks) for chunk in chunks]
    cut = [in_parts(level, shape, seen, chunk, num_blocks, sizes) for chunk in chunks]
    assert same_bits(together, torch.cat(alone))
    assert same_bits(together, torch.cat(cut))


@every_level
@every_type
@settings(max_examples=10)
@given(data=st.data())
def test_contexts_that_many_threads_share_give_the_same_bits(
    level: Level, type: CacheType, data: st.DataObject
) -> None:
    shape = data.draw(shapes(type))
    seen = Seen(window=data.draw(st.sampled_from([0, 300, 700])))
    lengths = data.draw(st.lists(st.integers(300, 1200), min_size=1, max_size=3))
    chunks, num_blocks = random_chunks(shape, lengths)
    sizes = [data.draw(st.sampled_from([1, 3, 18, 40])) for _ in chunks]
    before = [Chunk(0, chunk.table, chunk.rows[:-size]) for chunk, size in zip(chunks, sizes, strict=True)]
    newest = [
        parts_of(chunk, [len(part.rows), size], shape=shape, seen=seen)[1]
        for chunk, part, size in zip(chunks, before, sizes, strict=True)
    ]
    cache = PagedCache(shape, num_blocks)
    Layer(level, cache, seen=seen).step(before)

    results = [Layer(level, cache, seen=seen, num_threads=threads).step(newest) for threads in (1, 2, 16)]

    assert all(same_bits(result, results[0]) for result in results)


@every_level
@every_type
@pytest.mark.parametrize("length", [1, 2, 31, 45, 258])
@pytest.mark.parametrize("block_size", [16, 32])
def test_what_others_left_behind_the_last_position_is_not_used(
    level: Level, type: CacheType, length: int, block_size: int
) -> None:
    shape = Shape(type=type, block_size=block_size)
    [chunk], num_blocks = random_chunks(shape, [length])

    poisoned = in_parts(level, shape, Seen(), chunk, num_blocks, [1])
    stale = in_parts(level, shape, Seen(), chunk, num_blocks, [1], stale=True)

    assert not poisoned.isnan().any()
    assert same_bits(poisoned, stale)


@every_level
@every_type
@pytest.mark.parametrize("broken", [float("nan"), float("inf")])
@pytest.mark.parametrize(("at", "num_threads"), [(11, 1), (255, 1), (262, 2)])
def test_what_is_no_number_reaches_no_row_before_it(
    level: Level, type: CacheType, broken: float, at: int, num_threads: int
) -> None:
    shape = Shape(type=type)
    [chunk], num_blocks = random_chunks(shape, [270])
    expected = in_one_step(level, shape, Seen(), [chunk], num_blocks)
    chunk.rows[at] = broken

    out = in_one_step(level, shape, Seen(), [chunk], num_blocks, num_threads=num_threads)

    assert same_bits(out[:at], expected[:at])
    assert out[at:].isnan().all()


@every_level
@every_type
@pytest.mark.parametrize("block_size", [16, 32])
def test_blocks_behind_the_window_may_be_gone(level: Level, type: CacheType, block_size: int) -> None:
    shape = Shape(type=type, block_size=block_size)
    [whole], num_blocks = random_chunks(shape, [700])
    layer = Layer(level, PagedCache(shape, num_blocks), turned=scaled(shape), seen=Seen(window=100))
    expected = layer.step([whole])[-10:]
    gone = (690 + 1 - 100) // block_size
    layer.cache.poison(whole.table[:gone])

    again = layer.step([Chunk(690, whole.table[gone:], whole.rows[690:], gone)])

    assert same_bits(again, expected)


@every_level
@every_type
@pytest.mark.parametrize("latent", [False, True])
def test_where_units_hold_other_layers_too_and_which_table_is_read_change_no_bit(
    level: Level, type: CacheType, latent: bool
) -> None:
    shape = Shape(kv_heads=1, type=type, latent=latent)
    chunks, num_blocks = random_chunks(shape, [300, 3, 40])
    expected = in_one_step(level, shape, Seen(), chunks, num_blocks)

    moved = in_one_step(level, shape, Seen(), chunks, num_blocks, mixed=True, table=2, num_threads=2)

    assert same_bits(moved, expected)


@every_level
@every_type
def test_a_layer_may_read_the_rows_of_another_and_writes_none(level: Level, type: CacheType) -> None:
    shape = Shape(type=type)
    [chunk], num_blocks = random_chunks(shape, [70])
    cache = PagedCache(shape, num_blocks, stale=True)
    expected = Layer(level, cache, turned=scaled(shape)).step([chunk])
    before = [tensor.clone() for tensor in cache.tensors]
    queries = Chunk(0, chunk.table, chunk.rows[:, : shape.heads * shape.key_dim])

    out = Layer(level, cache, turned=scaled(shape), shared=True).step([queries])

    assert same_bits(out, expected)
    assert all(torch.equal(after, each) for after, each in zip(cache.tensors, before, strict=True))


@every_type
@pytest.mark.parametrize("latent", [False, True])
@pytest.mark.parametrize("seen", [Seen(), Seen(window=20, softcap=2.0, sinks=torch.ones(6))], ids=["plain", "all"])
def test_float_levels_give_equal_bits(type: CacheType, seen: Seen, latent: bool) -> None:
    shape = Shape(kv_heads=1, group=6, type=type, latent=latent)
    chunks, num_blocks = random_chunks(shape, [300, 3, 40])

    first, *others = (in_one_step(level, shape, seen, chunks, num_blocks) for level in FLOAT_LEVELS)

    assert all(same_bits(first, other) for other in others)


@every_level
def test_split_rows_are_the_plain_ones_in_two_parts(level: Level) -> None:
    shape = Shape(value_dim=24)
    chunks, num_blocks = random_chunks(shape, [40, 1])
    plain, split = (
        Layer(level, PagedCache(shape, num_blocks), format=format).step(chunks)
        for format in (Format.PLAIN, Format.SPLIT)
    )

    high = plain.bfloat16().float()

    assert same_bits(split, high + (plain - high).bfloat16().float())


@every_level
@every_type
def test_scores_far_apart_leave_one_value_and_no_trace_of_the_others(level: Level, type: CacheType) -> None:
    shape = Shape(group=1, kv_heads=1, type=type)
    [chunk], num_blocks = random_chunks(shape, [600], scale=40.0)
    exact = Chunk(0, chunk.table, chunk.rows.bfloat16().float())  # since scores so large magnify what is rounded
    layer = Layer(level, PagedCache(shape, num_blocks))

    out = layer.step([exact])

    if type is CacheType.INT8 and level is Level.AMX:
        layer.queries = layer.queries.bfloat16().float()  # rotated, they are exact no more
    expected = attend(layer, [exact], Seen())
    torch.testing.assert_close(out.double(), expected, rtol=2.0**-7, atol=1.0)


@every_level
@every_type
def test_a_sink_that_is_far_above_takes_all(level: Level, type: CacheType) -> None:
    shape = Shape(type=type)
    chunks, num_blocks = random_chunks(shape, [20])
    sinks = torch.tensor([500.0, -500.0] * 3)

    out = in_one_step(level, shape, Seen(sinks=sinks), chunks, num_blocks).view(20, 6, shape.value_dim)

    without = in_one_step(level, shape, Seen(), chunks, num_blocks).view(20, 6, shape.value_dim)
    assert not out[:, 0::2].any()
    torch.testing.assert_close(out[:, 1::2], without[:, 1::2])
