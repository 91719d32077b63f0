from types import SimpleNamespace

import pytest

from engine.cache.layout import CacheGroup, Layout, Reach, RowShape
from engine.cache.reading import read_layout
from engine.errors import ModelUnsupported
from tests.engine.cache.mixtures import rows

SLIDING, FULL, CHUNKED = "sliding_attention", "full_attention", "chunked_attention"


def config(**fields: object) -> SimpleNamespace:
    return SimpleNamespace(**({"num_hidden_layers": 2, "num_attention_heads": 4, "hidden_size": 64} | fields))


def read(config: SimpleNamespace, dtype: str = "float32", *, in_lanes: bool = False) -> Layout:
    return read_layout(config, dtype, in_lanes=in_lanes)


def of_kinds(*kinds: str, **fields: object) -> SimpleNamespace:
    return config(num_hidden_layers=len(kinds), layer_types=list(kinds), **fields)


# -- rows -------------------------------------------------------------------------------------


def test_a_config_without_kv_heads_has_one_for_each_head() -> None:
    assert read(config()).groups == (CacheGroup((0, 1), RowShape(4, 16, 16, "float32")),)


def test_a_config_may_name_kv_heads_and_a_head_width_of_its_own() -> None:
    asked = config(num_key_value_heads=2, head_dim=32)

    assert read(asked, "bfloat16").groups[0].rows == RowShape(2, 32, 32, "bfloat16")


def test_what_the_native_kernels_read_is_in_lanes() -> None:
    assert read(config(head_dim=8), "int8", in_lanes=True).groups[0].rows == RowShape(4, 8, 8, "int8", in_lanes=True)


def test_gpt2_s_names_are_known() -> None:
    layout = read(SimpleNamespace(n_layer=3, n_head=2, n_embd=32))

    assert layout.groups == (CacheGroup((0, 1, 2), RowShape(2, 16, 16, "float32")),)


def test_latent_attention_keeps_the_compressed_row_with_its_turned_part() -> None:
    layout = read(config(kv_lora_rank=512, qk_rope_head_dim=64, num_key_value_heads=16), "bfloat16")

    assert layout.groups == (CacheGroup((0, 1), RowShape(1, 576, 512, "bfloat16", latent=True)),)


# -- kinds of layers --------------------------------------------------------------------------


def test_layers_of_one_kind_are_a_group_in_the_order_of_their_first() -> None:
    layout = read(of_kinds(SLIDING, FULL, SLIDING, FULL, FULL, sliding_window=128))
    rows = layout.groups[0].rows

    assert layout.groups == (CacheGroup((0, 2), rows, Reach.WINDOW, 128), CacheGroup((1, 3, 4), rows))


def test_chunked_layers_see_their_chunk() -> None:
    layout = read(of_kinds(CHUNKED, CHUNKED, FULL, attention_chunk_size=8192))

    assert [(group.layers, group.reach, group.size) for group in layout.groups] == [
        ((0, 1), Reach.CHUNK, 8192),
        ((2,), Reach.FULL, 0),
    ]


@pytest.mark.parametrize("model_type", ["mistral", "phi3"])
def test_a_window_without_kinds_is_every_layers_where_the_model_means_it_so(model_type: str) -> None:
    (group,) = read(config(model_type=model_type, sliding_window=256)).groups

    assert (group.layers, group.reach, group.size) == ((0, 1), Reach.WINDOW, 256)


@pytest.mark.parametrize("fields", [{"model_type": "mistral", "sliding_window": None}, {"model_type": "llama"}])
def test_without_a_window_attention_is_full(fields: dict[str, object]) -> None:
    assert [group.reach for group in read(config(**fields)).groups] == [Reach.FULL]


def test_the_last_layers_may_read_the_rows_of_the_last_one_of_their_kind() -> None:
    kinds = (SLIDING, SLIDING, FULL, SLIDING, FULL, SLIDING)

    layout = read(of_kinds(*kinds, sliding_window=8, num_kv_shared_layers=3))

    assert [group.layers for group in layout.groups] == [(0, 1), (2,)]
    assert layout.owners == ((3, 1), (4, 2), (5, 1))


def test_recurrent_layers_keep_no_rows_and_the_others_keep_theirs() -> None:
    fields = {
        "model_type": "lfm2",
        "conv_L_cache": 3,
    }

    layout = read(of_kinds("conv", "conv", FULL, "conv", **fields))

    assert [group.layers for group in layout.groups] == [(2,)]
    assert [group.layers for group in layout.states] == [(0, 1, 3)]


def test_a_layer_with_another_state_is_refused_by_name() -> None:
    with pytest.raises(ModelUnsupported, match="layers of type telepathy, whose state"):
        read(of_kinds(FULL, "telepathy"))


def test_a_recurrent_model_whose_states_are_not_known_is_refused_with_the_kind_of_its_layers() -> None:
    with pytest.raises(ModelUnsupported, match="layers of type linear_attention are not run"):
        read(of_kinds(FULL, "linear_attention", model_type="unheard_of"))


@pytest.mark.parametrize(
    ("asked", "missing"),
    [
        (SimpleNamespace(hidden_size=64), "num_hidden_layers"),
        (of_kinds(SLIDING), "sliding_window"),
        (of_kinds(CHUNKED), "attention_chunk_size"),
        (config(kv_lora_rank=512), "qk_rope_head_dim"),
    ],
)
def test_a_config_without_a_size_is_refused_with_the_field(asked: SimpleNamespace, missing: str) -> None:
    with pytest.raises(ModelUnsupported, match=f"has no {missing}"):
        read(asked)


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"layer_types": ["sliding_attention"] * 2, "sliding_window": 0}, "sliding_window 0, and it must be 1 or more"),
        ({"layer_types": ["chunked_attention"] * 2, "attention_chunk_size": -3}, "attention_chunk_size -3"),
        ({"kv_lora_rank": -64, "qk_rope_head_dim": 8}, "kv_lora_rank -64"),
        ({"layer_types": ["full_attention"] * 2, "num_kv_shared_layers": 2}, "num_kv_shared_layers is 2"),
        (
            {"layer_types": ["full_attention", "sliding_attention"], "sliding_window": 4, "num_kv_shared_layers": 1},
            "a layer of type sliding_attention reads another's rows",
        ),
    ],
)
def test_sizes_that_make_no_sense_are_refused_by_their_names(fields: dict[str, object], told: str) -> None:
    with pytest.raises(ModelUnsupported, match=told):
        read_layout(config(**fields), "float32", in_lanes=False)


def test_a_window_is_never_wider_than_what_its_group_keeps() -> None:
    windowed, whole = CacheGroup((0,), rows(1, 8), Reach.WINDOW, 8), CacheGroup((0,), rows(1, 8))

    assert [windowed.window(asked) for asked in (None, 4, 12)] == [8, 4, 8]
    assert [whole.window(asked) for asked in (None, 4)] == [None, 4]
