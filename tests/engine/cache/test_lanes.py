from collections.abc import Iterator

import pytest
import torch
from torch import Tensor

from engine.cache.lanes import LaneStorage
from engine.cache.layout import CacheGroup, Layout, RowShape
from engine.model.kernels import ops
from engine.model.kernels.cache import form_of
from tests.engine.model.kernels.machine import LEVELS, opened
from tests.engine.model.kernels.paged import hadamard

KV_HEADS, BLOCK_SIZE, DIM = 2, 32, 20
PADDED = 32
CLOSE = 0.06  # to values around 1, of which 255 steps are left


def layout_of(dtype: str, *, mixed: bool = False) -> Layout:
    """A layer, and where rows of several shapes are mixed another that differs."""
    group = CacheGroup((0,), RowShape(KV_HEADS, DIM, DIM, dtype, in_lanes=True))
    other = CacheGroup((1,), RowShape(KV_HEADS, DIM, 2 * DIM, dtype, in_lanes=True))
    return Layout((group, other) if mixed else (group,))


def make_storage(dtype: str, *, mixed: bool) -> LaneStorage:
    storage = LaneStorage(layout_of(dtype, mixed=mixed), num_units=3, block_size=BLOCK_SIZE)
    storage.poison(range(3))
    return storage


@pytest.fixture(scope="module")
def pool() -> Iterator[int]:
    with opened(1) as handle:
        yield handle


def write(storage: LaneStorage, qkv: Tensor, slots: list[int], pool: int) -> None:
    """Have the kernels write rows [n, (2 + 2 × kv heads) × dim] to the first layer's slots, each at position 0."""
    cache, cache_form = list(storage.cells[0].tensors), list(form_of(storage, 0))
    for row, slot in zip(qkv, slots, strict=True):
        block, offset = divmod(slot, BLOCK_SIZE)
        step = [torch.tensor(each, dtype=torch.int32) for each in ([offset], [[slot]], [[[0, offset, 1, 0]]], [block])]
        ops.attention(row[None], cache, step, None, [KV_HEADS, 1, 0, 0], cache_form, 0.0, int(LEVELS[-1]), pool)


def keys_by_position(storage: LaneStorage) -> Tensor:
    """The first layer's keys, [blocks, kv heads, block size, dims] float32, taken apart as the class says."""
    stored = storage.cells[0].keys
    if storage.layout.dtype == "float32":
        return stored.reshape(3, KV_HEADS, 2, PADDED, 16).movedim(4, 3).reshape(3, KV_HEADS, BLOCK_SIZE, PADDED)
    pairs = stored.reshape(3, KV_HEADS, 2, PADDED // 2, 16, 2).movedim(4, 3)
    return pairs.reshape(3, KV_HEADS, BLOCK_SIZE, PADDED).float()


def values_by_position(storage: LaneStorage) -> Tensor:
    """The first layer's values, likewise."""
    stored = storage.cells[0].values
    assert stored is not None, "its rows are not latent"
    if storage.layout.dtype == "float32":
        return stored.reshape(3, KV_HEADS, BLOCK_SIZE, PADDED)
    pairs = stored.reshape(3, KV_HEADS, 2, 8, PADDED, 2).movedim(5, 4)
    return pairs.reshape(3, KV_HEADS, BLOCK_SIZE, PADDED).float()


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("mixed", [False, True])
def test_what_kernels_write_lies_where_the_storage_says(dtype: str, mixed: bool, pool: int) -> None:
    storage = make_storage(dtype, mixed=mixed)
    slots = [0, 1, 15, 16, 31, 2 * BLOCK_SIZE + 17]
    qkv = torch.randn(len(slots), 3 * KV_HEADS * DIM, generator=torch.Generator().manual_seed(0))

    write(storage, qkv, slots, pool)

    _, keys, values = qkv.view(len(slots), 3, KV_HEADS, DIM).unbind(1)
    for written, found in ((keys, keys_by_position(storage)), (values, values_by_position(storage))):
        for row, slot in zip(written, slots, strict=True):
            block, offset = divmod(slot, BLOCK_SIZE)
            assert torch.equal(found[block, :, offset, :DIM], row.to(storage.cells[0].keys.dtype).float())


@pytest.mark.parametrize("mixed", [False, True])
def test_integers_lie_there_too_rotated_with_their_scales(mixed: bool, pool: int) -> None:
    storage = make_storage("int8", mixed=mixed)
    slots = [0, 15, 16, 2 * BLOCK_SIZE + 17]
    qkv = torch.randn(len(slots), 3 * KV_HEADS * DIM, generator=torch.Generator().manual_seed(0))

    write(storage, qkv, slots, pool)

    _, keys, values = qkv.view(len(slots), 3, KV_HEADS, DIM).unbind(1)
    offsets, scales = of_keys(storage).view(torch.bfloat16).unflatten(-1, (-1, 2)).unbind(-1)
    back = hadamard(PADDED).float()
    found_keys = (keys_by_position(storage) * scales.float()[..., None] + offsets.float()[..., None]) @ back
    found_values = (values_by_position(storage) * of_values(storage)[..., None]) @ back
    for row, (written_keys, written_values) in enumerate(zip(keys, values, strict=True)):
        block, offset = divmod(slots[row], BLOCK_SIZE)
        assert (found_keys[block, :, offset, :DIM] - written_keys).abs().max() < CLOSE
        assert (found_values[block, :, offset, :DIM] - written_values).abs().max() < CLOSE
        assert found_keys[block, :, offset, DIM:].abs().max() < CLOSE


def of_keys(storage: LaneStorage) -> Tensor:
    """The first layer's scales of K, [blocks, kv heads, block size]."""
    scales = storage.cells[0].key_scales
    assert scales is not None, "integers have scales"
    by_head: Tensor = scales.unflatten(1, (KV_HEADS, BLOCK_SIZE))
    return by_head.contiguous()


def of_values(storage: LaneStorage) -> Tensor:
    """Those of V."""
    scales = storage.cells[0].value_scales
    assert scales is not None, "integers have scales"
    by_head: Tensor = scales.unflatten(1, (KV_HEADS, BLOCK_SIZE))
    return by_head


def test_blocks_that_are_not_whole_lanes_are_not_taken() -> None:
    with pytest.raises(AssertionError, match="smaller blocks are for the other storage"):
        LaneStorage(layout_of("float32"), num_units=1, block_size=8)


def test_rows_that_are_not_padded_are_not_taken() -> None:
    plain = Layout((CacheGroup((0,), RowShape(KV_HEADS, DIM, DIM, "float32")),))

    with pytest.raises(AssertionError, match="padding is not counted"):
        LaneStorage(plain, num_units=1, block_size=BLOCK_SIZE)
