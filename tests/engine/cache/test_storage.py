import subprocess
import sys

import torch

from engine.cache.layout import CacheGroup
from engine.cache.storage import KVStorage

GROUP = CacheGroup(num_layers=2, num_kv_heads=2, key_dim=4, value_dim=3, dtype="float32")


def make_storage(*, dtype: str = "float32") -> KVStorage:
    group = CacheGroup(2, 2, 4, 3, dtype)
    return KVStorage(group, num_blocks=5, block_size=2, device=torch.device("cpu"))


def rows_of(block: int, offset: int) -> list[int]:
    return [(block * 2 + head) * 2 + offset for head in range(2)]


def test_what_is_written_is_read_back_from_its_block_and_head() -> None:
    storage = make_storage()
    key, value = torch.randn(2, 2, 4), torch.randn(2, 2, 3)

    storage.write(1, torch.tensor(rows_of(3, 1) + rows_of(0, 0)), key, value)

    keys, values = storage.read(1, torch.tensor([[3 * 2 + 0, 0 * 2 + 0], [3 * 2 + 1, 0 * 2 + 1]]))
    assert keys.shape == (2, 4, 4)
    assert values.shape == (2, 4, 3)
    for head in range(2):
        assert torch.equal(keys[head, [1, 2]], key[:, head])
        assert torch.equal(values[head, [1, 2]], value[:, head])


def test_rows_are_kept_in_the_cache_s_type_and_read_as_float32() -> None:
    storage = make_storage(dtype="bfloat16")
    key = torch.full((1, 2, 4), 1.001)

    storage.write(0, torch.tensor(rows_of(0, 0)), key, torch.zeros(1, 2, 3))

    keys, _ = storage.read(0, torch.tensor([[0]]))
    assert keys.dtype == torch.float32
    assert torch.equal(keys[0, 0], key[0, 0].bfloat16().float())


def test_poison_fills_the_named_blocks_of_every_layer_and_no_other() -> None:
    storage = make_storage()
    for cache in (*storage.keys, *storage.values):
        cache.zero_()

    storage.poison({1, 4})

    for cache in (*storage.keys, *storage.values):
        assert cache[[1, 4]].isnan().all()
        assert not cache[[0, 2, 3]].isnan().any()


def test_memory_is_touched_as_blocks_are_first_written() -> None:
    program = """
import torch
from engine.cache.layout import CacheGroup
from engine.cache.storage import KVStorage

def resident():
    return int(open("/proc/self/statm").read().split()[1]) * 4096

before = resident()
storage = KVStorage(CacheGroup(4, 2, 64, 64, "float32"), num_blocks=4096, block_size=16, device=torch.device("cpu"))
size = sum(cache.nbytes for cache in (*storage.keys, *storage.values))
reserved = resident() - before
for layer in range(4):
    for cache in (storage.keys[layer], storage.values[layer]):
        cache[:1024].zero_()
print(size, reserved, resident() - before)
"""
    done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    size, reserved, touched = map(int, done.stdout.split())

    assert size == 256 << 20
    assert reserved < size // 20
    assert size // 5 < touched < size // 3
