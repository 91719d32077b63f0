import pytest
import torch

from engine.cache.layout import CacheGroup, Layout, RowShape
from engine.cache.storage import KVStorage, Slots


def make_storage(*, dtype: str = "float32", mixed: bool = False) -> KVStorage:
    rows, other = RowShape(2, 4, 3, dtype), RowShape(1, 4, 5, dtype)
    groups = (CacheGroup((0, 1), rows), *([CacheGroup((2,), other)] if mixed else []))
    return KVStorage(Layout(groups), num_units=5, block_size=2, device=torch.device("cpu"))


def slots_of(*places: tuple[int, int]) -> Slots:
    """From (unit, offset)."""
    units, offsets = zip(*places, strict=True)
    return Slots(torch.tensor(units), torch.tensor(offsets))


@pytest.mark.parametrize("mixed", [False, True])
def test_what_is_written_is_read_back_from_its_unit_and_head(mixed: bool) -> None:
    storage = make_storage(mixed=mixed)
    key, value = torch.randn(2, 2, 4), torch.randn(2, 2, 3)

    storage.write(1, slots_of((3, 1), (0, 0)), key, value)

    keys, values = storage.read(1, torch.tensor([[3 * 2 + 0, 0 * 2 + 0], [3 * 2 + 1, 0 * 2 + 1]]))
    assert keys.shape == (2, 4, 4)
    assert values.shape == (2, 4, 3)
    for head in range(2):
        assert torch.equal(keys[head, [1, 2]], key[:, head])
        assert torch.equal(values[head, [1, 2]], value[:, head])


def test_rows_are_kept_in_the_cache_s_type_and_read_as_float32() -> None:
    storage = make_storage(dtype="bfloat16")
    key = torch.full((1, 2, 4), 1.001)

    storage.write(0, slots_of((0, 0)), key, torch.zeros(1, 2, 3))

    keys, _ = storage.read(0, torch.tensor([[0]]))
    assert keys.dtype == torch.float32
    assert torch.equal(keys[0, 0], key[0, 0].bfloat16().float())


def test_latent_rows_are_their_own_values() -> None:
    rows = RowShape(1, 6, 4, "float32", latent=True)
    storage = KVStorage(Layout((CacheGroup((0,), rows),)), num_units=3, block_size=2, device=torch.device("cpu"))
    row = torch.randn(2, 1, 6)

    storage.write(0, slots_of((2, 1), (0, 0)), row, None)

    keys, values = storage.read(0, torch.tensor([[2, 0]]))
    assert torch.equal(keys[0, [1, 2]], row[:, 0])
    assert torch.equal(values[0, [1, 2]], row[:, 0, :4])
