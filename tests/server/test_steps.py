"""A trace's steps, as a table and as JSON."""

import json
from dataclasses import replace

from engine.stats import CacheInfo, StepRecord, StepRow, TableView
from server.steps import (
    DRAFTS_LEGEND,
    GROUPS_LEGEND,
    LEGEND,
    STATES_LEGEND,
    TIMES,
    bar,
    header,
    legend,
    lines,
    objects,
    owners,
    places,
)

PREFILL = StepRow("a/0", 6, 6, 7, 7, (0, 6), (42,), (TableView(0, 0, ((0, 1), (1, 1))),))
DECODE = StepRow("a/0", 7, 7, 8, 8, (6, 7), (43,), (TableView(0, 0, ((0, 1), (1, 1))),))
VERIFIED = DECODE._replace(  # four drafts, of which one was kept
    planned=11, computed=8, accepted=9, published=9, chunk=(6, 11), tokens=(42, 43), drafts=(42, 42, 42, 42),
    source="prediction",
    num_kept=1,
)  # fmt: skip
PART = StepRow("b/0", 4, 4, 6, 6, (2, 4), (), (TableView(0, 0, ((0, 2), (5, 1))),))
ONE_GROUP = CacheInfo(4, 8, 64, "float32", "full attention", groups=("full attention",))
MIXED = replace(ONE_GROUP, groups=("full attention", "sliding window of 4"), forgets=True, num_slots=5)
GROUPS = (TableView(0, 0, ((0, 2), (1, 2), (2, 1))), TableView(1, 2, ((9, 1),)))


def text_of(token: int) -> str:
    return {42: " the", 43: "\n"}[token]


def test_the_bar_tells_what_was_there_what_is_new_and_what_was_chosen() -> None:
    assert bar(PREFILL, num_positions=10) == "▓▓▓▓▓▓▒···"
    assert bar(DECODE, num_positions=10) == "██████▓▒··"
    assert bar(PART, num_positions=10) == "██▓▓▒▒····"


def test_a_long_sequence_is_scaled_and_its_newest_position_is_never_lost() -> None:
    row = StepRow("a/0", 501, 501, 502, 502, (500, 501), (42,), ())

    shown = bar(row, num_positions=1000)

    assert len(shown) == 32
    assert shown == "█" * 16 + "▓" + "·" * 15


def test_blocks_are_joined_to_runs_of_equal_owners() -> None:
    assert owners(()) == "-"
    assert owners(((3, 1),)) == "3"
    assert owners(((0, 2), (1, 2), (2, 2), (3, 1), (7, 1), (8, 1))) == f"0-2{TIMES}2 3 7-8"


def test_a_row_has_every_mark_and_the_chosen_text() -> None:
    record = StepRecord(3, (DECODE, PART))

    head = header(num_positions=10).split()
    first, second = lines(record, num_positions=10, text_of=text_of)

    assert head[:8] == ["step", "sequence", "chunk", "planned", "computed", "accepted", "published", "chosen"]
    assert first.split() == ["3", "a/0", "[6,7)", "7", "7", "8", "8", r"'\n'", "██████▓▒··", "0-1"]
    assert second.split() == ["3", "b/0", "[2,4)", "4", "4", "6", "6", "-", "██▓▓▒▒····", f"0{TIMES}2", "5"]


def test_the_columns_of_all_rows_stand_under_their_heads() -> None:
    head = header(num_positions=10)
    rows = [*lines(StepRecord(1, (PREFILL,)), num_positions=10, text_of=text_of)]
    rows += lines(StepRecord(2, (DECODE, PART)), num_positions=10, text_of=text_of)

    for column in ("chunk", "planned", "published", "chosen", "blocks"):
        at = head.index(column)
        assert all(row[at - 1] == " " and row[at] != " " for row in rows), column


def test_json_has_one_object_a_sequence_and_step() -> None:
    shown = [json.loads(line) for line in objects(StepRecord(3, (DECODE, PART)), ONE_GROUP)]

    assert shown[0] == {
        "step": 3,
        "sequence": "a/0",
        "chunk": [6, 7],
        "planned": 7,
        "computed": 7,
        "accepted": 8,
        "published": 8,
        "tokens": [43],
        "blocks": [[0, 1], [1, 1]],
    }
    assert shown[1]["sequence"] == "b/0"


def test_the_blocks_of_several_groups_stand_apart_and_tell_how_many_a_window_gave_back() -> None:
    row = DECODE._replace(tables=GROUPS)

    assert places(row) == f"0-1{TIMES}2 2 | 2 gone 9"
    assert places(DECODE) == "0-1"
    assert places(DECODE._replace(tables=(TableView(0, 3, ()),))) == "3 gone -"


def test_a_recurrent_sequence_shows_its_slot_and_the_checkpoints_that_were_taken() -> None:
    row = PREFILL._replace(slot=2, checkpoints=((4, 3), (8, 0)))

    assert places(row) == "0-1 | state 2 checkpoint 3 at 4 checkpoint 0 at 8"
    assert places(row._replace(tables=(), checkpoints=())) == "state 2"


def test_json_has_tables_and_slots_only_where_the_cache_has_groups_and_states() -> None:
    record = StepRecord(3, (PREFILL._replace(tables=GROUPS, slot=2, checkpoints=((4, 3),)),))

    (shown,) = (json.loads(line) for line in objects(record, MIXED))
    (plain,) = (json.loads(line) for line in objects(StepRecord(3, (PREFILL,)), ONE_GROUP))

    assert shown["blocks"] == [[0, 2], [1, 2], [2, 1], [9, 1]]
    assert shown["tables"] == [
        {"group": 0, "first": 0, "blocks": [[0, 2], [1, 2], [2, 1]]},
        {"group": 1, "first": 2, "blocks": [[9, 1]]},
    ]
    assert (shown["slot"], shown["checkpoints"]) == (2, [[4, 3]])
    assert not {"tables", "slot", "checkpoints"} & plain.keys()


def test_the_legend_explains_what_may_come_and_no_more() -> None:
    assert list(legend(ONE_GROUP)) == [LEGEND, DRAFTS_LEGEND]
    assert list(legend(MIXED)) == [LEGEND, DRAFTS_LEGEND, GROUPS_LEGEND, STATES_LEGEND]
    assert list(legend(replace(ONE_GROUP, forgets=True))) == [LEGEND, DRAFTS_LEGEND, GROUPS_LEGEND]


def test_a_rejection_is_told_whole() -> None:
    row, verdict = lines(StepRecord(4, (VERIFIED,)), num_positions=12, text_of=text_of)

    assert row.split()[2:7] == ["[6,11)", "11", "8", "9", "9"]
    assert "██████▓▓▒░░·" in row
    assert verdict.strip() == (
        "a/0 drafted ' the the the the' by prediction, 1 of 4 kept; chose ' the\\n'; positions [8,11) rolled back"
    )


def test_a_draft_that_was_kept_whole_rolls_nothing_back() -> None:
    kept = VERIFIED._replace(planned=8, chunk=(6, 8), drafts=(42,))

    _, verdict = lines(StepRecord(4, (kept,)), num_positions=12, text_of=text_of)

    assert verdict.strip() == "a/0 drafted ' the' by prediction, 1 of 1 kept; chose ' the\\n'"


def test_json_tells_a_draft_only_where_there_was_one() -> None:
    (shown,) = (json.loads(line) for line in objects(StepRecord(4, (VERIFIED,)), ONE_GROUP))
    (plain,) = (json.loads(line) for line in objects(StepRecord(4, (DECODE,)), ONE_GROUP))

    assert shown["draft"] == {"source": "prediction", "tokens": [42, 42, 42, 42], "kept": 1}
    assert "draft" not in plain


def test_what_the_draft_model_computed_is_told() -> None:
    record = StepRecord(3, (VERIFIED._replace(source="draft_model", fed=(2, 7)),))

    _, fed, verdict = lines(record, num_positions=12, text_of=text_of)
    (shown,) = (json.loads(line) for line in objects(record, ONE_GROUP))

    assert fed.strip() == "a/0 draft model computed [2,7)"
    assert "by draft_model, 1 of 4 kept" in verdict
    assert shown["fed"] == [2, 7]
