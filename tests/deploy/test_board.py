import json

import pytest

from deploy.board import WIDTH, board
from deploy.panel import HEIGHT
from tests.deploy.exposition import series
from tests.deploy.promql import names_in
from tests.deploy.watched import BOARD, panels, queries, rules

SERIES = series()
RECORDED = {rule.name for rule in rules() if not rule.alert}


def test_the_board_is_what_its_script_prints() -> None:
    assert json.loads(BOARD.read_text()) == board(), "run: python -m deploy.board > deploy/grafana/tidemark.json"


@pytest.mark.parametrize("expr", queries().values(), ids=queries())
def test_a_query_of_the_board_names_only_what_the_server_shows(expr: str) -> None:
    names = names_in(expr)
    shown = [labels for selector in names.selectors for name, labels in SERIES if selector.takes(name, labels)]

    assert names.selectors
    for selector in names.selectors:
        if selector.name not in RECORDED:
            assert any(selector.takes(*one) for one in SERIES), selector
    assert not names.grouping or names.grouping <= set().union(*shown)


@pytest.mark.parametrize(
    ("panel", "queries_of_it"),
    [
        ("Positions a second", "planned computed accepted published rejected"),
        ("Step by stage", "plan execute commit publish model masks sample"),
        ("Drafted tokens a second", "prediction prompt_lookup draft_model"),
        ("Grammars a second, by outcome", "compiled cached refused"),
        ("Refusals a second", "queue_full context_too_long draining"),
        ("Ended a second, by outcome", "finished refused aborted failed"),
        ("Blocks by state", "free allocated shared cached"),
        ("Blocks in use by group", "allocated shared cached"),
    ],
)
def test_a_panel_shows_every_value_of_its_label(panel: str, queries_of_it: str) -> None:
    (expr,) = (expr for key, expr in queries().items() if key == f"{panel} A")
    selector, label = names_in(expr).selectors[0], {"Blocks in use by group": "state"}
    (by,) = {label.get(panel) or one for one in names_in(expr).grouping}

    found = {labels[by] for name, labels in SERIES if selector.takes(name, labels)}

    assert set(queries_of_it.split()) <= found


def test_the_stack_of_blocks_fills_the_capacity_that_is_drawn_beside_it() -> None:
    (panel,) = (panel for panel in panels() if panel["title"] == "Blocks by state")

    drawn = {target["legendFormat"]: target["expr"] for target in panel["targets"]}
    (override,) = panel["fieldConfig"]["overrides"]

    assert panel["fieldConfig"]["defaults"]["custom"]["stacking"] == {"mode": "normal"}
    assert "tidemark_kv_blocks_capacity" in drawn["capacity"]
    assert override["matcher"]["options"] == "capacity"
    assert {"id": "custom.stacking", "value": {"mode": "none"}} in override["properties"]


def test_no_two_panels_overlap_and_none_leaves_the_board() -> None:
    taken: set[tuple[int, int]] = set()
    for panel in panels():
        place = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }

        assert place["x"] + place["w"] <= WIDTH
        assert place["h"] == HEIGHT
        assert not cells & taken, panel["title"]
        taken |= cells


def test_every_panel_says_what_it_shows_and_has_an_id_of_its_own() -> None:
    everything = json.loads(BOARD.read_text())["panels"]

    assert all(panel["description"] for panel in panels())
    assert len({panel["id"] for panel in everything}) == len(everything)
