"""The ledger's body: what a plain cache shows, and what groups and recurrent states add."""

from dataclasses import replace

from engine.stats import BlockCounts, CacheInfo, TableView
from server.render.ledger import ledger_body
from server.wire.ledger import LedgerBody
from tests.fakes import INFO, FakeEngine
from tests.parts import a_request

FULL, WINDOW = "full attention, 1 layers", "sliding window of 4, 2 layers"
TABLES = (TableView(0, 0, ((0, 2), (3, 1))), TableView(1, 1, ((5, 1),)))


def body_of(cache: CacheInfo, tables: tuple[TableView, ...], *, slot: int | None = None) -> LedgerBody:
    """One sequence's, with made-up counts."""
    engine = FakeEngine()
    engine.open(a_request((2, 3)))
    shown = engine.snapshot()
    (view,) = shown.sequences
    counts = tuple(BlockCounts(4, 1 + index, 2, 3) for index in range(len(cache.groups)))
    slots = BlockCounts(free=1, allocated=1, shared=0, cached=2)
    sequences = (view._replace(tables=tables, slot=slot),)
    return ledger_body(replace(INFO, cache=cache), replace(shown, groups=counts, slots=slots, sequences=sequences))


def test_full_attention_alone_shows_its_blocks_and_nothing_of_groups_or_slots() -> None:
    body = body_of(replace(INFO.cache, groups=(FULL,)), TABLES[:1])

    assert body["sequences"][0]["blocks"] == [{"id": 0, "owners": 2}, {"id": 3, "owners": 1}]
    assert not {"tables", "slot"} & body["sequences"][0].keys()
    assert not {"groups", "slots"} & body["pool"].keys()


def test_several_groups_show_what_each_holds_and_from_which_block_on() -> None:
    body = body_of(replace(INFO.cache, groups=(FULL, WINDOW), forgets=True), TABLES)

    sequence = body["sequences"][0]
    assert [block["id"] for block in sequence["blocks"]] == [0, 3, 5]
    assert sequence["tables"] == [
        {"group": 0, "first": 0, "blocks": [{"id": 0, "owners": 2}, {"id": 3, "owners": 1}]},
        {"group": 1, "first": 1, "blocks": [{"id": 5, "owners": 1}]},
    ]
    assert body["pool"]["groups"] == [
        {"layout": FULL, "allocated": 1, "shared": 2, "cached": 3},
        {"layout": WINDOW, "allocated": 2, "shared": 2, "cached": 3},
    ]


def test_one_group_with_a_window_tells_where_its_blocks_begin() -> None:
    body = body_of(replace(INFO.cache, groups=(WINDOW,), forgets=True), (TableView(0, 7, ((5, 1),)),))

    assert body["sequences"][0]["tables"][0]["first"] == 7


def test_recurrent_states_show_the_sequences_slot_and_how_many_there_are() -> None:
    cache = replace(INFO.cache, num_slots=4, slot_bytes=1000)

    running, waiting = body_of(cache, TABLES[:1], slot=3), body_of(cache, ())

    assert (running["sequences"][0]["slot"], waiting["sequences"][0]["slot"]) == (3, None)
    assert running["pool"]["slots"] == {
        "capacity": 4,
        "slot_bytes": 1000,
        "free": 1,
        "allocated": 1,
        "shared": 0,
        "cached": 2,
    }
    assert "tables" not in running["sequences"][0]
