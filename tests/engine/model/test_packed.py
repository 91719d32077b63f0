"""Attention of the native kernels in modules: the same as torch's, with every kind of layer and cache."""

import functools
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from engine.cache.lanes import LaneStorage
from engine.cache.layout import Layout, RowShape
from engine.cache.storage import KVStorage
from engine.model.attention import PagedAttention, settle_geometries
from engine.model.kernels.choice import Kernels
from engine.model.kernels.native import Level
from engine.model.kernels.product import Place
from engine.model.packed import KernelAttention
from engine.model.tiles import Geometry
from tests.engine.model.attending import NUM_HEADS, CachedAttention, World, dense, groups_of, layout_of
from tests.engine.model.kernels.machine import LEVELS, opened, the_library

LENGTHS = (300, 70, 1)
BLOCK_SIZE = 16
NAMES = tuple(groups_of("float32", in_lanes=False, block_size=BLOCK_SIZE))
SIZES = ((1, 7, 40, 130), (33, 16))
WITHIN = {"float32": 2e-5, "bfloat16": 0.03, "int8": 0.04}  # of what is exact, with rows and products rounded

Outs = list[dict[int, Tensor]]


def make_layout(name: str, dtype: str, *, in_lanes: bool) -> Layout:
    return layout_of(groups_of(dtype, in_lanes=in_lanes, block_size=BLOCK_SIZE)[name], sharing=True)


def units_for(layout: Layout) -> int:
    return sum(-(-length // BLOCK_SIZE) for length in LENGTHS) * layout.num_tables


def on_torch(name: str, dtype: str) -> PagedAttention:
    layout = make_layout(name, dtype, in_lanes=False)
    cpu = torch.device("cpu")
    storage = KVStorage(layout, num_units=units_for(layout), block_size=BLOCK_SIZE, device=cpu)
    return PagedAttention(storage, geometries_of(name))


@functools.cache
def geometries_of(name: str) -> dict[RowShape, Geometry]:
    """Measured once: they depend on the shapes alone."""
    layout = make_layout(name, "float32", in_lanes=False)
    storage = KVStorage(layout, num_units=1, block_size=BLOCK_SIZE, device=torch.device("cpu"))
    measured = settle_geometries(storage, NUM_HEADS)
    return {replace(rows, dtype=dtype): found for rows, found in measured.items() for dtype in ("float32", "bfloat16")}


@contextmanager
def on_kernels(name: str, dtype: str, level: Level, *, num_threads: int = 1) -> Iterator[KernelAttention]:
    layout = make_layout(name, dtype, in_lanes=True)
    storage = LaneStorage(layout, num_units=units_for(layout), block_size=BLOCK_SIZE)
    with opened(num_threads) as pool:
        yield KernelAttention(storage, Place(Kernels(the_library(), level), pool))


def worlds(attention: CachedAttention) -> World:
    return World(attention, LENGTHS)


def same_bits(ours: Outs, expected: Outs) -> bool:
    return all(
        bool(out.isfinite().all()) and torch.equal(out, other[layer])
        for layers, other in zip(ours, expected, strict=True)
        for layer, out in layers.items()
    )


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_torch_attends_as_the_dense_formula_says(name: str, dtype: str) -> None:
    attention = on_torch(name, dtype)

    outs = worlds(attention).whole()

    for number, layers in enumerate(outs):
        for layer, out in layers.items():
            expected = dense(attention.storage.layout, layer, number, LENGTHS[number])
            torch.testing.assert_close(out.double(), expected, rtol=0, atol=WITHIN[dtype])


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_torch_gives_the_same_bits_in_every_cut_though_blocks_are_given_back(name: str, dtype: str) -> None:
    whole = worlds(on_torch(name, dtype)).whole()

    for sizes in SIZES:
        assert same_bits(worlds(on_torch(name, dtype)).chunked(sizes), whole)


@pytest.mark.parametrize("level", LEVELS, ids=lambda level: level.name)
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int8"])
def test_kernels_attend_as_torch_does(name: str, dtype: str, level: Level) -> None:
    twin = worlds(on_torch(name, "float32" if dtype == "int8" else dtype)).whole()
    exact = dtype != "int8" and (level is not Level.AMX or dtype == "float32")

    with on_kernels(name, dtype, level) as attention:
        outs = worlds(attention).whole()

    for layers, expected in zip(outs, twin, strict=True):
        for layer, out in layers.items():
            within = WITHIN["float32" if exact else dtype]
            torch.testing.assert_close(out, expected[layer], rtol=0, atol=within)


@pytest.mark.parametrize("level", LEVELS, ids=lambda level: level.name)
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int8"])
def test_kernels_give_the_same_bits_in_every_cut_though_blocks_are_given_back(
    name: str, dtype: str, level: Level
) -> None:
    with on_kernels(name, dtype, level) as attention:
        whole = worlds(attention).whole()

    for sizes in SIZES:
        with on_kernels(name, dtype, level, num_threads=2) as attention:
            assert same_bits(worlds(attention).chunked(sizes), whole)


@pytest.mark.parametrize("name", NAMES)
def test_calls_are_counted_by_layer(name: str) -> None:
    with on_kernels(name, "float32", LEVELS[0]) as attention:
        worlds(attention).whole()

        assert attention.calls == dict.fromkeys(attention.storage.layout.places, 1)
