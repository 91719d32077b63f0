"""Prints the Grafana board: `python -m deploy.board > deploy/grafana/tidemark.json`."""

import json
import sys
from itertools import count

from deploy.panel import HEIGHT, SOURCE, Json
from deploy.rows import ROWS

WIDTH = 24  # of the board, in Grafana's units


def board() -> Json:
    """The whole board, as Grafana imports it."""
    return {
        "uid": "tidemark",
        "title": "Tidemark",
        "tags": ["tidemark"],
        "schemaVersion": 39,
        "editable": True,
        "graphTooltip": 1,
        "refresh": "5s",
        "time": {"from": "now-30m", "to": "now"},
        "templating": {"list": _variables()},
        "panels": _panels(),
    }


def _variables() -> list[Json]:
    source = {"name": "source", "label": "Prometheus", "type": "datasource", "query": "prometheus"}
    models = _variable("model", "label_values(tidemark_server_state, model)")
    instances = _variable("instance", 'label_values(tidemark_server_state{model=~"$model"}, instance)')
    return [source, models, instances]


def _variable(name: str, query: str) -> Json:
    choice = {"includeAll": True, "multi": True, "allValue": ".+", "current": {"text": ["All"], "value": ["$__all"]}}
    return {"name": name, "type": "query", "datasource": SOURCE, "query": query, "refresh": 2, **choice}


def _panels() -> list[Json]:
    """Rows from the top, their panels from the left, as many beside each other as fit."""
    placed: list[Json] = []
    numbers, y = count(1), 0
    for title, panels in ROWS:
        placed.append(_heading(title, next(numbers), y))
        x, y = 0, y + 1
        for panel in panels:
            if x + panel.width > WIDTH:
                x, y = 0, y + HEIGHT
            placed.append(panel.json(next(numbers), x, y))
            x += panel.width
        y += HEIGHT
    return placed


def _heading(title: str, number: int, y: int) -> Json:
    place = {"x": 0, "y": y, "w": WIDTH, "h": 1}
    return {"id": number, "type": "row", "title": title, "collapsed": False, "panels": [], "gridPos": place}


if __name__ == "__main__":
    json.dump(board(), sys.stdout, indent=1)
    sys.stdout.write("\n")
