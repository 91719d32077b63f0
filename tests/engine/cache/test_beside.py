import pytest

from engine.cache.beside import keep_everything, with_rows_beside
from engine.cache.layout import CacheGroup, Layout, Reach, RowShape, StateArray, StateGroup
from engine.cache.sizing import num_units_for
from engine.errors import ModelUnsupported

ROWS, SMALL = RowShape(4, 16, 16, "float32"), RowShape(1, 8, 8, "float32")
FULL, WINDOW = CacheGroup((0, 2), ROWS), CacheGroup((1, 3, 4, 5), ROWS, Reach.WINDOW, 32)
STATES = (StateGroup("Mamba", (0, 1), (StateArray("state", (4,)),)),)
DRAFTER = Layout((CacheGroup((0, 1, 2), SMALL),))
SMALL_BYTES = 3 * 2 * 8 * 4  # of one position in the draft model


def test_a_draft_model_keeps_every_position_in_one_group_whatever_its_layers_see() -> None:
    kept = keep_everything(Layout((FULL, WINDOW), owners=((6, 2),)))

    assert kept.groups == (CacheGroup((0, 1, 2, 3, 4, 5), ROWS),)
    assert kept.owners == ((6, 2),)
    assert kept.widths == (1,)


def test_a_recurrent_draft_model_is_refused_by_its_kind() -> None:
    with pytest.raises(ModelUnsupported, match="can't have recurrent layers, and this one has Mamba states, 2 layers"):
        keep_everything(Layout((FULL,), STATES))


def test_a_draft_model_of_chunks_is_refused() -> None:
    with pytest.raises(ModelUnsupported, match="can't have chunked attention"):
        keep_everything(Layout((CacheGroup((0,), ROWS, Reach.CHUNK, 32),)))


def test_rows_beside_make_units_larger_and_leave_everything_else_as_it_is() -> None:
    target = Layout((WINDOW, FULL))

    joint = with_rows_beside(target, DRAFTER)

    assert (joint.groups, joint.widths, joint.places) == (target.groups, target.widths, target.places)
    assert joint.unit_bytes(16) == target.unit_bytes(16) + 16 * SMALL_BYTES
    assert str(joint) == str(target)


def test_they_are_found_by_a_table_of_the_group_that_keeps_every_position() -> None:
    joint = with_rows_beside(Layout((WINDOW, FULL)), DRAFTER)

    assert joint.group_beside == 1
    assert joint.table_beside == joint.widths[0]
    assert joint.table_groups[joint.table_beside] == FULL


def test_what_lies_unused_beside_other_groups_units_counts_as_waste() -> None:
    alone, mixed = (with_rows_beside(Layout(groups), DRAFTER) for groups in ((FULL,), (FULL, WINDOW)))

    assert alone.waste == 0
    assert mixed.waste == pytest.approx(
        1 - (mixed.block_bytes(1) - (mixed.num_tables - 1) * SMALL_BYTES) / mixed.block_bytes(1)
    )


@pytest.mark.parametrize("target", [Layout((WINDOW,)), Layout((), STATES)])
def test_where_no_group_keeps_every_position_one_without_layers_does(target: Layout) -> None:
    joint = with_rows_beside(target, DRAFTER)

    assert joint.groups == (*target.groups, CacheGroup((), SMALL))
    assert joint.widths == (*target.widths, 1)
    assert joint.places == target.places
    assert joint.unit_bytes(16) == target.unit_bytes(16) + 16 * SMALL_BYTES
    assert num_units_for(joint, 160, 16) - num_units_for(target, 160, 16) == 10
    assert str(joint.groups[-1]) == "places of a draft model"
