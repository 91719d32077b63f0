"""What is asked of the metrics: the queries of the board, and the rules."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

DEPLOY = Path(__file__).parents[2] / "deploy"
BOARD = DEPLOY / "grafana" / "tidemark.json"
RULES = DEPLOY / "prometheus" / "rules.yml"
RULES_TEST = Path(__file__).parent / "rules_test.yml"
Tree = dict[str, Any]  # YAML or JSON by its nature


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule: `name` is the metric that it records, or its alert's."""

    name: str
    expr: str
    alert: bool
    tree: Tree


def panels() -> list[Tree]:
    """The panels of the board that ask for something."""
    board: Tree = json.loads(BOARD.read_text())
    return [panel for panel in board["panels"] if panel["type"] != "row"]


def queries(*, window: str = "1m") -> dict[str, str]:
    """The board's queries with everything chosen, by panel and letter; rates are over `window`."""
    return {
        f"{panel['title']} {target['refId']}": _chosen(target["expr"], window)
        for panel in panels()
        for target in panel["targets"]
    }


def _chosen(expr: str, window: str) -> str:
    return expr.replace("$__rate_interval", window).replace("$model", ".+").replace("$instance", ".+")


def rules() -> list[Rule]:
    """All rules, in order."""
    return [
        Rule(tree.get("record") or tree["alert"], tree["expr"], "alert" in tree, tree)
        for group in documents(RULES)[0]["groups"]
        for tree in group["rules"]
    ]


def documents(file: Path) -> list[Tree]:
    """What a YAML file holds."""
    return list(yaml.safe_load_all(file.read_text()))
