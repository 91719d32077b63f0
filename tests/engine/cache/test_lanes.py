from collections.abc import Iterator

import pytest
import torch
from torch import Tensor

from engine.cache.lanes import LaneStorage
from engine.cache.layout import CacheGroup, Layout
from engine.model.kernels import ops
from tests.engine.model.kernels.machine import LEVELS, opened

LAYERS, KV_HEADS, BLOCK_SIZE, DIM = 2, 2, 32, 20
PADDED = 32


def make_storage(dtype: str, *, num_blocks: int = 3) -> LaneStorage:
    group = CacheGroup(LAYERS, KV_HEADS, DIM, DIM, dtype, in_lanes=True)
    return LaneStorage(group, num_blocks=num_blocks, block_size=BLOCK_SIZE)


@pytest.fixture(scope="module")
def pool() -> Iterator[int]:
    with opened(1) as handle:
        yield handle


def write(storage: LaneStorage, qkv: Tensor, slots: list[int], pool: int) -> None:
    """Have the kernels write rows [n, (2 + 2 × kv heads) × dim] to the first layer's slots, each at position 0."""
    scales = [storage.key_scales[0], storage.value_scales[0]] if storage.key_scales else []
    for row, slot in zip(qkv, slots, strict=True):
        block, offset = divmod(slot, BLOCK_SIZE)
        step = [torch.tensor(each, dtype=torch.int32) for each in ([offset], [slot], [[0, offset, 1, 0]], [block])]
        form = [KV_HEADS, KV_HEADS, DIM, BLOCK_SIZE, 1]
        ops.attention(
            row[None], storage.keys[0], storage.values[0], scales, step, None, form, 0.0, int(LEVELS[-1]), pool
        )


def keys_by_position(storage: LaneStorage) -> Tensor:
    """The first layer's keys, [blocks, kv heads, block size, dims] float32, taken apart as the class says."""
    stored = storage.keys[0]
    if storage.group.dtype == "float32":
        return stored.view(3, KV_HEADS, 2, PADDED, 16).movedim(4, 3).reshape(3, KV_HEADS, BLOCK_SIZE, PADDED)
    pairs = stored.view(3, KV_HEADS, 2, PADDED // 2, 16, 2).movedim(4, 3)
    return pairs.reshape(3, KV_HEADS, BLOCK_SIZE, PADDED).float()


def values_by_position(storage: LaneStorage) -> Tensor:
    """The first layer's values, likewise."""
    stored = storage.values[0]
    if storage.group.dtype == "float32":
        return stored.view(3, KV_HEADS, BLOCK_SIZE, PADDED)
    pairs = stored.view(3, KV_HEADS, 2, 8, PADDED, 2).movedim(5, 4)
    return pairs.reshape(3, KV_HEADS, BLOCK_SIZE, PADDED).float()


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int8"])
def test_what_kernels_write_lies_where_the_storage_says(dtype: str, pool: int) -> None:
    storage = make_storage(dtype)
    slots = [0, 1, 15, 16, 31, 2 * BLOCK_SIZE + 17]
    qkv = torch.randn(len(slots), 3 * KV_HEADS * DIM, generator=torch.Generator().manual_seed(0))

    write(storage, qkv, slots, pool)

    _, keys, values = qkv.view(len(slots), 3, KV_HEADS, DIM).unbind(1)
    for written, found, scales in (
        (keys, keys_by_position(storage), storage.key_scales),
        (values, values_by_position(storage), storage.value_scales),
    ):
        for row, slot in zip(written, slots, strict=True):
            block, offset = divmod(slot, BLOCK_SIZE)
            stored = found[block, :, offset, :DIM]
            if dtype == "int8":
                stored = stored * scales[0][block, :, offset, None]
                assert (stored - row).abs().max() <= 0.51 * scales[0][block, :, offset].max()
            else:
                assert torch.equal(stored, row.to(storage.keys[0].dtype).float())


@pytest.mark.parametrize(("dtype", "size"), [("float32", 4), ("bfloat16", 2), ("int8", 1)])
def test_each_layer_has_its_own_tensors_padded_to_whole_lanes(dtype: str, size: int) -> None:
    storage = make_storage(dtype)

    assert len(storage.keys) == len(storage.values) == LAYERS
    for cache in (*storage.keys, *storage.values):
        assert cache.nbytes == 3 * KV_HEADS * BLOCK_SIZE * PADDED * size
    assert len({cache.data_ptr() for cache in (*storage.keys, *storage.values)}) == 2 * LAYERS


def test_integers_have_a_scale_for_each_position_of_a_head() -> None:
    storage = make_storage("int8")

    assert [scales.shape for scales in storage.key_scales] == [(3, KV_HEADS, BLOCK_SIZE)] * LAYERS
    assert [scales.dtype for scales in storage.value_scales] == [torch.float32] * LAYERS
    assert make_storage("bfloat16").key_scales == make_storage("bfloat16").value_scales == ()


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int8"])
def test_a_block_takes_the_bytes_that_the_layout_says(dtype: str) -> None:
    storage = make_storage(dtype)
    caches = (*storage.keys, *storage.values, *storage.key_scales, *storage.value_scales)

    assert sum(cache.nbytes for cache in caches) == 3 * Layout((storage.group,)).block_bytes(BLOCK_SIZE)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int8"])
def test_poison_fills_the_named_blocks_of_every_layer_and_no_other(dtype: str) -> None:
    storage = make_storage(dtype)
    floats = (*storage.key_scales, *storage.value_scales) or (*storage.keys, *storage.values)
    for cache in floats:
        cache.zero_()

    storage.poison({0, 2})

    for cache in floats:
        assert cache[[0, 2]].isnan().all()
        assert not cache[1].isnan().any()


def test_blocks_that_are_not_whole_lanes_are_not_taken() -> None:
    group = CacheGroup(LAYERS, KV_HEADS, DIM, DIM, "float32", in_lanes=True)

    with pytest.raises(AssertionError, match="smaller blocks are for the other storage"):
        LaneStorage(group, num_blocks=1, block_size=8)
