from types import SimpleNamespace

import pytest

from config.settings import CacheSettings
from engine.cache.layout import CacheGroup, Layout, padded_dim, plan_blocks, read_layout
from engine.errors import CacheTooLarge, CacheTooSmall, ModelUnsupported

GROUP = CacheGroup(num_layers=30, num_kv_heads=3, key_dim=64, value_dim=64, dtype="float32")
LAYOUT = Layout((GROUP,))
BLOCK_BYTES = 30 * 3 * (64 + 64) * 4 * 16


def blocks(free_bytes: int = 1 << 34, max_sequences: int = 16, context_length: int = 8192, **cache: object) -> int:
    return plan_blocks(
        LAYOUT,
        CacheSettings.model_validate(cache),
        free_bytes=free_bytes,
        max_sequences=max_sequences,
        context_length=context_length,
    )


def config(**fields: object) -> SimpleNamespace:
    return SimpleNamespace(**({"num_hidden_layers": 2, "num_attention_heads": 4, "hidden_size": 64} | fields))


def test_a_block_holds_k_and_v_of_every_layer_and_kv_head() -> None:
    assert LAYOUT.block_bytes(16) == BLOCK_BYTES
    assert Layout((CacheGroup(2, 1, 8, 24, "bfloat16"),)).block_bytes(4) == 2 * 1 * (8 + 24) * 2 * 4


def test_integers_bring_a_scale_for_each_row() -> None:
    assert Layout((CacheGroup(2, 1, 8, 24, "int8"),)).block_bytes(4) == 2 * 1 * (8 + 24 + 2 * 4) * 4


@pytest.mark.parametrize(("dim", "padded"), [(1, 16), (16, 16), (17, 32), (64, 64), (80, 80), (100, 112)])
def test_a_head_is_padded_to_whole_lanes(dim: int, padded: int) -> None:
    assert padded_dim(dim) == padded


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int8"])
@pytest.mark.parametrize(("dim", "stored"), [(8, 16), (64, 64), (80, 80), (100, 112)])
def test_in_lanes_the_padding_of_heads_is_counted(dim: int, stored: int, dtype: str) -> None:
    assert CacheGroup(2, 3, dim, dim, dtype, in_lanes=True).block_bytes(32) == (
        CacheGroup(2, 3, stored, stored, dtype).block_bytes(32)
    )
    assert read_layout(config(head_dim=dim), dtype, in_lanes=True).groups == (
        CacheGroup(2, 4, dim, dim, dtype, in_lanes=True),
    )


def test_a_layout_reads_as_one_line() -> None:
    assert str(LAYOUT) == "full attention, 30 layers, 3 kv heads x 64"
    assert str(CacheGroup(2, 1, 8, 24, "float32")) == "full attention, 2 layers, 1 kv heads x 8/24"


def test_a_config_without_kv_heads_has_one_for_each_head() -> None:
    assert read_layout(config(), "float32", in_lanes=False).groups == (CacheGroup(2, 4, 16, 16, "float32"),)


def test_a_config_may_name_kv_heads_and_a_head_width_of_its_own() -> None:
    asked = config(num_key_value_heads=2, head_dim=32)

    assert read_layout(asked, "bfloat16", in_lanes=False).groups == (CacheGroup(2, 2, 32, 32, "bfloat16"),)


def test_gpt2_s_names_are_known() -> None:
    assert (
        read_layout(SimpleNamespace(n_layer=3, n_head=2, n_embd=32), "float32", in_lanes=False).groups[0].key_dim == 16
    )


def test_windowed_layers_keep_everything_in_the_one_group() -> None:
    layers = config(layer_types=["sliding_attention", "full_attention"])

    assert read_layout(layers, "float32", in_lanes=False).groups[0].num_layers == 2


def test_a_layer_with_another_state_is_refused_by_name() -> None:
    with pytest.raises(ModelUnsupported, match="linear_attention"):
        read_layout(config(layer_types=["full_attention", "linear_attention"]), "float32", in_lanes=False)


def test_a_config_without_layers_is_refused_with_the_field() -> None:
    with pytest.raises(ModelUnsupported, match="num_hidden_layers"):
        read_layout(SimpleNamespace(), "float32", in_lanes=False)


def test_a_set_number_of_blocks_is_taken() -> None:
    assert blocks(num_blocks=7, free_bytes=7 * BLOCK_BYTES) == 7


def test_a_set_size_holds_as_many_blocks_as_fit() -> None:
    assert blocks(memory_bytes=10 * BLOCK_BYTES + 1, free_bytes=10 * BLOCK_BYTES) == 10


@pytest.mark.parametrize("cache", [{"num_blocks": 8}, {"memory_bytes": 8 * BLOCK_BYTES}])
def test_more_than_is_free_is_refused_with_the_numbers(cache: dict[str, int]) -> None:
    with pytest.raises(CacheTooLarge, match=rf"takes {8 * BLOCK_BYTES} bytes, and {8 * BLOCK_BYTES - 1} are free"):
        blocks(free_bytes=8 * BLOCK_BYTES - 1, **cache)


def test_by_default_a_share_of_the_free_memory_is_taken() -> None:
    assert blocks(free_bytes=400 * BLOCK_BYTES) == 100


def test_by_default_there_is_a_ceiling() -> None:
    assert blocks(free_bytes=1 << 50) == (2 << 30) // BLOCK_BYTES


def test_by_default_no_more_is_taken_than_all_sequences_can_use() -> None:
    assert blocks(max_sequences=2, context_length=100) == 2 * 7


@pytest.mark.parametrize("cache", [{"num_blocks": 3}, {"memory_bytes": 3 * BLOCK_BYTES}, {}])
def test_a_handful_of_blocks_is_refused_with_the_numbers(cache: dict[str, int]) -> None:
    with pytest.raises(CacheTooSmall, match=str(BLOCK_BYTES)):
        blocks(free_bytes=12 * BLOCK_BYTES, **cache)
