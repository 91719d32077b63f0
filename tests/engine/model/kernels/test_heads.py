"""From q, k and v rows to queries and the cache: against float64, and the cache's types against each other."""

from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings, strategies as st
from torch import Tensor

from engine.model.kernels.native import CacheType, Level, NormKind, Rotary
from tests.engine.model.kernels.machine import FLOAT_LEVELS, LEVELS, same_bits
from tests.engine.model.kernels.paged import (
    Chunk,
    Layer,
    PagedCache,
    Shape,
    Turned,
    rotated,
    slots_of,
    whole_lanes,
)

every_level = pytest.mark.parametrize("level", LEVELS, ids=lambda level: level.name)
every_type = pytest.mark.parametrize("type", CacheType, ids=lambda type: type.name)
NUM_POSITIONS = 100


def random_tensor(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


@st.composite
def shapes(draw: st.DrawFn, type: CacheType = CacheType.F32) -> Shape:
    dims = st.sampled_from([8, 16, 20, 34, 48, 64, 80, 128])
    return Shape(
        kv_heads=draw(st.integers(1, 3)),
        group=draw(st.integers(1, 4)),
        key_dim=draw(dims),
        value_dim=draw(dims),
        block_size=draw(st.sampled_from([16, 48])),
        type=type,
    )


@st.composite
def turns(draw: st.DrawFn, shape: Shape) -> Turned:
    """Norms and rotary of any kind; the angles are no angles, so that each value can be told."""
    whole = draw(st.booleans())
    sizes = (shape.heads * shape.key_dim, shape.kv_heads * shape.key_dim) if whole else (shape.key_dim,) * 2
    query_norm, key_norm = (random_tensor(size, seed=size) if draw(st.booleans()) else None for size in sizes)
    pairs = draw(st.integers(1, shape.key_dim // 2))
    rotary = draw(st.sampled_from(Rotary))
    return Turned(
        rotary=rotary,
        cos=None if rotary is Rotary.NONE else random_tensor(NUM_POSITIONS, pairs, seed=1),
        sin=None if rotary is Rotary.NONE else random_tensor(NUM_POSITIONS, pairs, seed=2),
        norm_kind=draw(st.sampled_from([NormKind.RMS, NormKind.LAYER])),
        norm_whole=whole,
        query_norm=query_norm,
        key_norm=key_norm,
        eps=draw(st.sampled_from([1e-5, 0.1])),
        scale=draw(st.sampled_from([1.0, 0.125])),
    )


def one_chunk(shape: Shape, length: int = 21, *, start: int = 5) -> Chunk:
    num_blocks = -(-(start + length) // shape.block_size)
    return Chunk(start, tuple(range(num_blocks, 0, -1)), random_tensor(length, shape.width) * 2)


def blocks_of(chunk: Chunk) -> int:
    return len(chunk.table) + 2


def written(layer: Layer, chunk: Chunk) -> tuple[Tensor, Tensor]:
    """K and V of the chunk's positions, [rows, kv heads, padded dim] float64."""
    slots, size = slots_of(chunk, layer.cache.shape.block_size), layer.cache.shape.block_size
    return layer.cache.read_keys()[slots // size, :, slots % size], layer.cache.read_values()[
        slots // size, :, slots % size
    ]


def normed(x: Tensor, weight: Tensor | None, turned: Turned) -> Tensor:
    """`x` [rows, heads, dim] float64."""
    if weight is None:
        return x
    shape = x.shape
    x = x.flatten(1) if turned.norm_whole else x
    if turned.norm_kind is NormKind.LAYER:
        x = x - x.mean(-1, keepdim=True)
    return (x * torch.rsqrt(x.square().mean(-1, keepdim=True) + turned.eps) * weight.double()).view(shape)


def turned_by(x: Tensor, positions: Tensor, turned: Turned) -> Tensor:
    """`x` [rows, heads, dim] float64."""
    if turned.cos is None or turned.sin is None:
        return x
    cos, sin = (table[positions.long()].double().unsqueeze(1) for table in (turned.cos, turned.sin))
    pairs = cos.shape[-1]
    first, second = torch.arange(pairs), torch.arange(pairs, 2 * pairs)
    if turned.rotary is Rotary.INTERLEAVED:
        first, second = torch.arange(0, 2 * pairs, 2), torch.arange(1, 2 * pairs, 2)
    out = x.clone()
    out[..., first] = x[..., first] * cos - x[..., second] * sin
    out[..., second] = x[..., second] * cos + x[..., first] * sin
    return out


def parts_of(chunk: Chunk, shape: Shape) -> tuple[Tensor, Tensor, Tensor]:
    """q, k and v, [rows, heads, dim] float64."""
    sizes = (shape.heads * shape.key_dim, shape.kv_heads * shape.key_dim, shape.kv_heads * shape.value_dim)
    q, k, v = chunk.rows.double().split(sizes, dim=1)
    rows = len(chunk.rows)
    return q.view(rows, -1, shape.key_dim), k.view(rows, -1, shape.key_dim), v.view(rows, -1, shape.value_dim)


def assert_holds(actual: Tensor, expected: Tensor) -> None:
    """`actual` [..., padded dim] begins with what is expected, [..., dim], and ends with zeros."""
    dim = expected.shape[-1]
    torch.testing.assert_close(actual[..., :dim].double(), expected, rtol=2e-6, atol=4e-6)
    assert not actual[..., dim:].any()


@every_level
@settings(max_examples=40)
@given(data=st.data())
def test_queries_and_keys_are_normed_and_turned_and_values_are_as_they_were(level: Level, data: st.DataObject) -> None:
    shape = data.draw(shapes())
    turned = data.draw(turns(shape))
    chunk = one_chunk(shape)
    layer = Layer(level, PagedCache(shape, blocks_of(chunk)), turned=turned)

    layer.step([chunk])

    q, k, v = parts_of(chunk, shape)
    keys, values = written(layer, chunk)
    queries = layer.queries.view(len(q), shape.heads, whole_lanes(shape.key_dim))
    assert_holds(queries, turned_by(normed(q, turned.query_norm, turned), chunk.positions, turned) * turned.scale)
    assert_holds(keys, turned_by(normed(k, turned.key_norm, turned), chunk.positions, turned))
    assert_holds(values, v)


@every_level
@given(data=st.data())
def test_bfloat16_holds_what_float32_would_hold_rounded_to_the_nearest(level: Level, data: st.DataObject) -> None:
    shape = data.draw(shapes(CacheType.BF16))
    plain, rounded = both_ways(level, shape)

    assert all(torch.equal(b, a.bfloat16().double()) for a, b in zip(plain, rounded, strict=True))


@every_level
@given(data=st.data())
def test_int8_holds_rotated_heads_within_half_a_step_of_the_254th_of_their_range(
    level: Level, data: st.DataObject
) -> None:
    shape = data.draw(shapes(CacheType.INT8))
    (keys, values), (stored_keys, stored_values) = both_ways(level, shape)

    for exact, stored, largest in (
        (rotated(keys, shape), stored_keys, half_range(rotated(keys, shape))),
        (rotated(values, shape), stored_values, rotated(values, shape).abs().amax(-1, keepdim=True)),
    ):
        assert ((exact - stored).abs() <= largest / 127 * 0.51).all()


def half_range(rows: Tensor) -> Tensor:
    """And what bfloat16 makes of the middle, which all values of a head may lie beyond by as much."""
    least, largest = rows.amin(-1, keepdim=True), rows.amax(-1, keepdim=True)
    return (largest - least) / 2 + (largest + least).abs() / 2 / 256


@every_level
@given(data=st.data())
def test_queries_of_an_int8_cache_are_rotated_as_keys_are(level: Level, data: st.DataObject) -> None:
    shape = data.draw(shapes(CacheType.INT8))
    chunk = one_chunk(shape)
    plain, turned = (Layer(level, PagedCache(each, blocks_of(chunk))) for each in (of_floats(shape), shape))

    for layer in (plain, turned):
        layer.step([chunk])

    exact = plain.queries.double().view(len(chunk.rows), shape.heads, whole_lanes(shape.key_dim))
    expected = rotated(exact, shape).flatten(1)
    torch.testing.assert_close(turned.queries.double(), expected, rtol=0, atol=4e-6)


@every_level
@pytest.mark.parametrize(("key_dim", "value_dim"), [(48, 32), (40, 20), (80, 64), (96, 48)])
def test_v_of_latent_int8_rows_is_rotated_apart_and_needs_no_offset(level: Level, key_dim: int, value_dim: int) -> None:
    shape = Shape(kv_heads=1, key_dim=key_dim, value_dim=value_dim, type=CacheType.INT8, latent=True)
    chunk = one_chunk(shape)
    (keys, _), (stored, values) = both_ways(level, shape)

    exact = rotated(keys, shape, latent=True)
    steps = exact.abs().amax(-1, keepdim=True) / 127
    assert ((exact - stored).abs() <= steps * 0.51).all()
    dims = whole_lanes(value_dim)
    torch.testing.assert_close(rotated(values, shape), keys[..., :dims], rtol=0, atol=0.2)
    assert len(keys) == len(chunk.rows)


def both_ways(level: Level, shape: Shape) -> tuple[tuple[Tensor, Tensor], tuple[Tensor, Tensor]]:
    """What a float32 cache and one of the shape's own type hold of the same rows."""
    chunk = one_chunk(shape)
    layers = [Layer(level, PagedCache(each, blocks_of(chunk))) for each in (of_floats(shape), shape)]
    for layer in layers:
        layer.step([chunk])
    return written(layers[0], chunk), written(layers[1], chunk)


def of_floats(shape: Shape) -> Shape:
    return replace(shape, type=CacheType.F32)


@every_level
def test_int8_holds_zeros_and_what_is_nearly_zero(level: Level) -> None:
    shape = Shape(type=CacheType.INT8)
    chunk = one_chunk(shape)
    chunk.rows[:3] = 0
    chunk.rows[3:6] *= 1e-38
    layer = Layer(level, PagedCache(shape, blocks_of(chunk)))

    layer.step([chunk])

    assert all(stored[:6].abs().max() < 1e-30 for stored in written(layer, chunk))


@every_level
@every_type
def test_only_the_slots_of_the_step_are_written(level: Level, type: CacheType) -> None:
    shape = Shape(type=type)
    chunk = one_chunk(shape)
    cache, untouched = (PagedCache(shape, blocks_of(chunk), stale=True) for _ in range(2))

    Layer(level, cache).step([chunk])

    others = torch.ones(blocks_of(chunk) * shape.block_size, dtype=torch.bool)
    others[slots_of(chunk, shape.block_size)] = False
    at = others.nonzero().flatten()
    for read in (PagedCache.read_keys, PagedCache.read_values):
        after, before = (read(each)[at // shape.block_size, :, at % shape.block_size] for each in (cache, untouched))
        assert torch.equal(after, before)


@every_level
@every_type
def test_a_row_gives_the_same_bits_in_every_company(level: Level, type: CacheType) -> None:
    shape = Shape(type=type, key_dim=64)
    turned = Turned(
        rotary=Rotary.HALF,
        cos=random_tensor(NUM_POSITIONS, 32),
        sin=random_tensor(NUM_POSITIONS, 32, seed=1),
        query_norm=random_tensor(64),
        key_norm=random_tensor(64, seed=1),
    )
    whole = one_chunk(shape, 60)
    together, alone = (PagedCache(shape, blocks_of(whole)) for _ in range(2))
    many = Layer(level, together, turned=turned, num_threads=3)
    one = Layer(level, alone, turned=turned)

    many.step([whole])
    queries = []
    for row in range(60):
        one.step([Chunk(whole.start + row, whole.table, whole.rows[row : row + 1])])
        queries.append(one.queries)

    assert same_bits(many.queries, torch.cat(queries))
    assert all(torch.equal(a, b) for a, b in zip(written(many, whole), written(one, whole), strict=True))


@every_type
@given(data=st.data())
def test_float_levels_give_equal_bits(type: CacheType, data: st.DataObject) -> None:
    shape = data.draw(shapes(type))
    turned = data.draw(turns(shape))
    chunk = one_chunk(shape)
    layers = [Layer(level, PagedCache(shape, blocks_of(chunk)), turned=turned) for level in FLOAT_LEVELS]

    for layer in layers:
        layer.step([chunk])

    for layer in layers[1:]:
        assert same_bits(layer.queries, layers[0].queries)
        assert all(torch.equal(a, b) for a, b in zip(written(layer, chunk), written(layers[0], chunk), strict=True))
