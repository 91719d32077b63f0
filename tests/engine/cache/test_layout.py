import pytest
from hypothesis import given, strategies as st

from engine.cache.layout import (
    MAX_WASTE,
    CacheGroup,
    Layout,
    Place,
    Reach,
    RowShape,
    StateArray,
    StateGroup,
    padded_dim,
)
from tests.engine.cache.mixtures import (
    DEEPSEEK_V2_LITE,
    GEMMA_3_1B,
    GEMMA_3_270M,
    GEMMA_3N_E2B,
    GPT_OSS_20B,
    LLAMA_4_SCOUT,
    MIXTURES,
    mixture,
    rows,
)

LAYOUT = Layout((CacheGroup(tuple(range(30)), rows(3, 64, "float32")),))
BLOCK_BYTES = 30 * 3 * (64 + 64) * 4 * 16


def full(num_layers: int, shape: RowShape) -> CacheGroup:
    return CacheGroup(tuple(range(num_layers)), shape)


# -- bytes ------------------------------------------------------------------------------------


def test_a_block_holds_k_and_v_of_every_layer_and_kv_head() -> None:
    assert LAYOUT.block_bytes(16) == LAYOUT.unit_bytes(16) == BLOCK_BYTES
    assert Layout((full(2, RowShape(1, 8, 24, "bfloat16")),)).block_bytes(4) == 2 * 1 * (8 + 24) * 2 * 4


def test_integers_bring_a_scale_for_each_row() -> None:
    assert Layout((full(2, RowShape(1, 8, 24, "int8")),)).block_bytes(4) == 2 * 1 * (8 + 24 + 2 * 4) * 4


def test_a_latent_row_is_kept_once_for_k_and_v_and_has_one_scale() -> None:
    assert RowShape(1, 576, 512, "bfloat16", latent=True).cell_bytes(16) == 576 * 2 * 16
    assert RowShape(1, 576, 512, "int8", latent=True).cell_bytes(16) == (576 + 4) * 16
    assert DEEPSEEK_V2_LITE.block_bytes(16) == 27 * 576 * 2 * 16


@pytest.mark.parametrize(("dim", "padded"), [(1, 16), (16, 16), (17, 32), (64, 64), (80, 80), (100, 112)])
def test_a_head_is_padded_to_whole_lanes(dim: int, padded: int) -> None:
    assert padded_dim(dim) == padded


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int8"])
@pytest.mark.parametrize(("dim", "stored"), [(8, 16), (64, 64), (80, 80), (100, 112)])
def test_in_lanes_the_padding_of_heads_is_counted(dim: int, stored: int, dtype: str) -> None:
    in_lanes = RowShape(3, dim, dim, dtype, in_lanes=True)

    assert in_lanes.cell_bytes(32) == RowShape(3, stored, stored, dtype).cell_bytes(32)


def test_a_slot_holds_the_states_of_all_recurrent_layers_in_float32() -> None:
    arrays = (StateArray("conv", (4, 3)), StateArray("state", (2, 5, 8)))
    states = (StateGroup("Mamba", (0, 2), arrays), StateGroup("short convolution", (1,), arrays[:1]))

    assert Layout((), states).slot_bytes == (2 * (12 + 80) + 12) * 4
    assert (Layout((), states).block_bytes(16), Layout((), states).waste) == (0, 0.0)


# -- units ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("layout", "widths", "layers_a_unit"),
    [
        (LAYOUT, (1,), (30,)),
        (GEMMA_3_1B, (6, 1), (4, 4)),
        (GEMMA_3_270M, (5, 1), (3, 3)),
        (GPT_OSS_20B, (1, 1), (12, 12)),
        (LLAMA_4_SCOUT, (3, 1), (12, 12)),
        (GEMMA_3N_E2B, (4, 1), (4, 4)),
        (DEEPSEEK_V2_LITE, (1,), (27,)),
        (MIXTURES["wide heads in full attention"], (10, 1), (5, 10)),
        (MIXTURES["two types"], (1, 2), (12, 6)),
    ],
)
def test_a_unit_is_as_large_as_leaves_all_groups_little_unused(
    layout: Layout, widths: tuple[int, ...], layers_a_unit: tuple[int, ...]
) -> None:
    unit = layout.unit_bytes(16)

    assert layout.widths == widths
    assert tuple(unit // group.rows.cell_bytes(16) for group in layout.groups) == layers_a_unit


@pytest.mark.parametrize("layout", MIXTURES.values(), ids=MIXTURES.keys())
def test_models_that_mix_layers_waste_less_than_a_tenth_in_every_group(layout: Layout) -> None:
    unit = layout.unit_bytes(16)

    for group, width in zip(layout.groups, layout.widths, strict=True):
        used = len(group.layers) * group.rows.cell_bytes(16)
        assert 1 - used / (width * unit) < MAX_WASTE
    used = sum(len(group.layers) * group.rows.cell_bytes(16) for group in layout.groups)
    assert layout.waste == pytest.approx(1 - used / layout.block_bytes(16), abs=1e-12)
    assert layout.waste < MAX_WASTE


def test_the_waste_is_what_no_row_ever_takes() -> None:
    assert LAYOUT.waste == GEMMA_3_270M.waste == 0.0
    assert GEMMA_3_1B.waste == pytest.approx(2 / 28)  # 22 layers in 6 units of 4, and 4 in 1


def test_groups_that_fit_no_common_unit_well_waste_as_little_as_can_be() -> None:
    two = Layout((full(1, rows(1, 96)), CacheGroup((1,), rows(1, 128))))
    many = mixture(6, 30, 1024, rows(8, 256), full=rows(2, 512))  # cells of 8 and 4 KiB, 25 and 5 layers

    assert (two.unit_bytes(1), two.widths) == (rows(1, 128).cell_bytes(1), (1, 1))
    assert two.waste == pytest.approx(1 / 8)
    assert many.widths == (25, 3)
    assert many.waste == pytest.approx(1 / 56)


# -- places -----------------------------------------------------------------------------------


def test_each_layer_has_its_cell_of_a_unit_and_each_unit_of_a_block_its_table() -> None:
    places = GEMMA_3_1B.places
    near, far = (group.layers for group in GEMMA_3_1B.groups)

    assert [places[layer] for layer in near[:5]] == [Place(0, 0), Place(0, 1), Place(0, 2), Place(0, 3), Place(1, 0)]
    assert places[near[-1]] == Place(5, 1)
    assert [places[layer] for layer in far] == [Place(6, 0), Place(6, 1), Place(6, 2), Place(6, 3)]


@given(
    st.lists(
        st.tuples(st.integers(1, 12), st.integers(1, 4), st.sampled_from((16, 48, 64)), st.booleans()),
        min_size=1,
        max_size=4,
    )
)
def test_no_two_layers_have_one_place_and_every_place_lies_within_its_unit(
    parts: list[tuple[int, int, int, bool]],
) -> None:
    groups: list[CacheGroup] = []
    for num_layers, heads, dim, windowed in parts:
        start = sum(len(group.layers) for group in groups)
        reach = (Reach.WINDOW, 8) if windowed else (Reach.FULL, 0)
        groups.append(CacheGroup(tuple(range(start, start + num_layers)), rows(heads, dim), *reach))
    layout = Layout(tuple(groups))

    assert len(set(layout.places.values())) == len(layout.places) == sum(len(group.layers) for group in groups)
    for layer, place in layout.places.items():
        cell = layout.group_of(layer).rows.cell_bytes(1)
        assert 0 <= place.table < sum(layout.widths)
        assert (place.cell + 1) * cell <= layout.unit_bytes(1)
    tables = [{layout.places[layer].table for layer in group.layers} for group in groups]
    assert sum(map(len, tables)) == len(set[int]().union(*tables)), "no table serves two groups"


def test_a_layer_that_reads_anothers_rows_has_its_place_and_its_group() -> None:
    places = GEMMA_3N_E2B.places

    assert len(places) == 30
    assert all(places[layer] == places[18] for layer in (20, 21, 22, 23, 25))
    assert places[24] == places[29] == places[19]
    assert GEMMA_3N_E2B.group_of(24).reach is Reach.FULL
    assert GEMMA_3N_E2B.group_of(28) is GEMMA_3N_E2B.groups[0]


# -- reach ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("reach", "size", "firsts"),
    [
        (Reach.FULL, 0, [0] * 8),
        (Reach.WINDOW, 1, [0, 1, 2, 3, 4, 5, 6, 7]),
        (Reach.WINDOW, 3, [0, 0, 0, 1, 2, 3, 4, 5]),
        (Reach.CHUNK, 3, [0, 0, 0, 3, 3, 3, 6, 6]),
    ],
)
def test_a_query_sees_itself_and_as_far_back_as_its_reach_goes(reach: Reach, size: int, firsts: list[int]) -> None:
    group = CacheGroup((0,), rows(1, 8), reach, size)

    assert [group.first_seen(position) for position in range(8)] == firsts


# -- words ------------------------------------------------------------------------------------


def test_a_layout_reads_as_one_line() -> None:
    states = (StateGroup("Mamba-2", (0, 1), (StateArray("state", (4, 64)),)),)

    assert str(LAYOUT) == "full attention, 30 layers, 3 kv heads x 64"
    assert str(full(2, RowShape(1, 8, 24, "float32"))) == "full attention, 2 layers, 1 kv heads x 8/24"
    assert str(DEEPSEEK_V2_LITE) == "full attention, 27 layers, latent rows of 576"
    assert str(GEMMA_3N_E2B) == (
        "sliding window of 512, 16 layers, 2 kv heads x 256; full attention, 4 layers, 2 kv heads x 256; "
        "10 layers read another's rows"
    )
    assert str(Layout(LLAMA_4_SCOUT.groups[:1], states)) == (
        "chunked attention of 8192, 36 layers, 8 kv heads x 128; Mamba-2 states, 2 layers, 2,048 bytes each"
    )
