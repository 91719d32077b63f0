from engine.holding import slot_view, unit_view
from engine.look import Hold, UnitView
from tests.digest import LAYOUTS
from tests.laws.shape import Shape
from tests.parts import Parts, a_request, blocks_of


def test_a_unit_tells_its_owner_its_positions_and_the_tokens_that_are_computed() -> None:
    parts = Parts()
    sequence = parts.run(a_request((2, 3, 4, 5, 2)))

    plan = parts.issue()
    before = unit_view(blocks_of(sequence)[1], parts.roster, parts.tables)
    parts.apply(plan)
    behind = unit_view(blocks_of(sequence)[1], parts.roster, parts.tables)
    half = unit_view(blocks_of(sequence)[2], parts.roster, parts.tables)

    assert before == UnitView(1, (1,), Hold.ALLOCATED, 0, (2, 4), ("request/0",), ())
    assert behind == UnitView(1, (1,), Hold.ALLOCATED, 0, (2, 4), ("request/0",), (4, 5))
    assert half is not None
    assert (half.positions, half.tokens) == ((4, 6), (2,))


def test_a_shared_unit_tells_all_its_owners_and_a_free_one_nothing() -> None:
    parts = Parts()
    parts.run(a_request(id="first"))
    parts.step()
    parts.run(a_request(id="second"))

    shared, free = (unit_view(unit, parts.roster, parts.tables) for unit in (0, 7))

    assert shared is not None
    assert (shared.hold, shared.owners) == (Hold.SHARED, ("first/0", "second/0"))
    assert free is None


def test_a_cached_unit_tells_what_only_the_prefix_index_knows() -> None:
    parts = Parts()
    parts.run(a_request((2, 3, 4, 5, 2), max_tokens=1))
    parts.step()

    view = unit_view(1, parts.roster, parts.tables)

    assert view == UnitView(1, (1,), Hold.CACHED, 0, (2, 4), (), (4, 5))


def test_any_unit_of_a_wide_block_tells_the_block() -> None:
    parts = Parts(Shape(layout=LAYOUTS["all"], num_blocks=8))
    sequence = parts.run(a_request((2, 3, 4, 5)))
    parts.issue()
    block = blocks_of(sequence, group=1)[0]
    units = parts.tables.pool.units(block)

    views = [unit_view(unit, parts.roster, parts.tables) for unit in units]

    assert len(units) > 1
    assert all(view is not None and (view.block, view.units, view.group) == (block, units, 1) for view in views)


def test_a_slot_tells_whose_state_it_has_and_a_checkpoint_where_it_stands() -> None:
    parts = Parts(Shape(layout=LAYOUTS["all"], num_blocks=8))
    sequence = parts.run(a_request((2, 3, 4, 5, 6, 7, 8), max_tokens=2))
    plan = parts.issue()
    slots = [sequence.held.slot, sequence.held.taking[0][1], 4]
    assert slots[0] is not None

    issued = [slot_view(slot or 0, parts.roster, parts.tables) for slot in slots]
    parts.apply(plan)
    live, checkpoint = (slot_view(slot or 0, parts.roster, parts.tables) for slot in slots[:2])

    assert [None if view is None else view.positions for view in issued] == [(0, 0), None, None]
    assert issued[2] is None
    assert live == UnitView(slots[0], (slots[0],), Hold.ALLOCATED, None, (0, 7), ("request/0",), ())
    assert checkpoint is not None
    assert (checkpoint.hold, checkpoint.positions, checkpoint.owners) == (Hold.CACHED, (0, 6), ())
