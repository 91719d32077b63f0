"""Where each layer's rows lie in the units of the pool."""

import subprocess
import sys
from collections.abc import Iterator

import pytest
import torch
from hypothesis import given, strategies as st
from torch import Tensor

from engine.cache.layout import CacheGroup, Layout, Reach, RowShape
from engine.cache.memory import UnitMemory

BLOCK_SIZE = 16
NUM_UNITS = 5
CPU = torch.device("cpu")


@st.composite
def layouts(draw: st.DrawFn) -> Layout:
    """Groups of a few layers, with rows of one shape or of several, and perhaps a layer that reads another's."""
    dtype, in_lanes = draw(st.sampled_from(["float32", "bfloat16", "int8"])), draw(st.booleans())
    shapes = st.builds(
        RowShape,
        st.integers(1, 3),
        st.sampled_from([20, 32]),
        st.sampled_from([16, 20]),
        st.just(dtype),
        st.just(in_lanes),
        st.booleans(),
    )
    groups, layer = [], 0
    for rows in draw(st.lists(shapes, min_size=1, max_size=3)):
        count = draw(st.integers(1, 4))
        groups.append(CacheGroup(tuple(range(layer, layer + count)), rows, Reach.WINDOW, 8))
        layer += count
    return Layout(tuple(groups), owners=((layer, 0),) if draw(st.booleans()) else ())


def make(layout: Layout) -> UnitMemory:
    memory = UnitMemory(layout, num_units=NUM_UNITS, block_size=BLOCK_SIZE, device=CPU)
    memory.poison(range(NUM_UNITS))
    return memory


def tensors_of(memory: UnitMemory, table: int) -> Iterator[Tensor]:
    """Those of the layers that own their rows in one table's units."""
    for layer, place in memory.layout.places.items():
        if place.table == table and memory.layout.owner_of(layer) == layer:
            yield from memory.cells[layer].tensors


@given(layout=layouts())
def test_no_two_layers_of_a_table_share_a_byte_of_a_unit(layout: Layout) -> None:
    for table in range(layout.num_tables):
        memory = make(layout)
        for number, tensor in enumerate(tensors_of(memory, table)):
            tensor.fill_(number)

        for number, tensor in enumerate(tensors_of(memory, table)):
            assert bool((tensor == number).all())


@given(layout=layouts())
def test_a_unit_s_layers_lie_in_its_own_bytes(layout: Layout) -> None:
    memory = make(layout)
    for layer in layout.places:
        for tensor in memory.cells[layer].tensors:
            tensor.zero_()

    memory.poison({1, 4})

    for layer in layout.places:
        for tensor in memory.cells[layer].tensors:
            assert not tensor[[0, 2, 3]].any()
            poisoned = tensor[[1, 4]]
            assert bool(poisoned.isnan().all()) if tensor.is_floating_point() else bool((poisoned == -1).all())


@given(layout=layouts())
def test_memory_takes_the_bytes_that_the_layout_says(layout: Layout) -> None:
    assert make(layout).num_bytes == NUM_UNITS * layout.unit_bytes(BLOCK_SIZE)


@given(layout=layouts())
def test_a_cell_has_what_its_rows_have(layout: Layout) -> None:
    memory = make(layout)

    for layer in layout.places:
        cell, rows = memory.cells[layer], layout.group_of(layer).rows
        assert sum(each[0].nbytes for each in cell.tensors) == rows.cell_bytes(BLOCK_SIZE)
        assert (cell.values is None) == rows.latent
        assert (cell.key_scales is None) == (rows.dtype != "int8")
        assert (cell.value_scales is None) == (rows.latent or rows.dtype != "int8")


@given(layout=layouts())
def test_a_layer_that_reads_another_s_rows_has_its_place(layout: Layout) -> None:
    memory = make(layout)

    for layer, owner in layout.owners:
        assert memory.cells[layer].keys.data_ptr() == memory.cells[owner].keys.data_ptr()


def test_rows_of_one_shape_lie_together_layer_by_layer() -> None:
    group = CacheGroup((0, 1), RowShape(2, 32, 32, "float32"))

    memory = make(Layout((group,)))

    assert all(tensor.is_contiguous() for cell in memory.cells.values() for tensor in cell.tensors)


def test_a_model_without_rows_has_no_cells() -> None:
    memory = make(Layout(()))

    assert memory.cells == {}
    assert memory.num_bytes == 0


@pytest.mark.parametrize("value_dims", ["64, 64", "64, 128"])
def test_memory_is_touched_as_units_are_first_written(value_dims: str) -> None:
    program = f"""
import torch
from engine.cache.layout import CacheGroup, Layout, RowShape
from engine.cache.memory import UnitMemory

def resident():
    return int(open("/proc/self/statm").read().split()[1]) * 4096

groups = [CacheGroup((i,), RowShape(2, 64, dim, "float32")) for i, dim in enumerate(({value_dims}))]
before = resident()
memory = UnitMemory(Layout(tuple(groups)), num_units=8192, block_size=16, device=torch.device("cpu"))
reserved = resident() - before
for cell in memory.cells.values():
    for tensor in cell.tensors:
        tensor[:2048].zero_()
print(memory.num_bytes, reserved, resident() - before)
"""
    done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    size, reserved, touched = map(int, done.stdout.split())

    assert size >= 128 << 20
    assert reserved < size // 20
    assert size // 6 < touched < size // 3
