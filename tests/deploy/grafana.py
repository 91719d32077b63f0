"""Reads a board from standard input and prints what Grafana does not know of it; has an environment of its own.

As JSON: how many values the board has, and the paths of those. Grafana's library reads a board into its models and
leaves out what they have no place for: what comes back must be what went in.
"""

import json
import sys

from grafana_foundation_sdk.cog import plugins
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models.dashboard import Dashboard


def leaves(value, path=""):
    """Every value that holds no others, by its path."""
    if not isinstance(value, dict | list) or not value:
        return {path: value}
    pairs = value.items() if isinstance(value, dict) else enumerate(value)
    return {place: leaf for key, each in pairs for place, leaf in leaves(each, f"{path}/{key}").items()}


def read_back(board):
    """The board as the library writes it."""
    return json.loads(JSONEncoder().encode(Dashboard.from_json(board)))


if __name__ == "__main__":
    plugins.register_default_plugins()  # the kinds of panels, and queries of Prometheus
    given = json.load(sys.stdin)
    before, after = leaves(given), leaves(read_back(given))
    lost = [path for path, value in before.items() if path not in after or after[path] != value]
    json.dump([len(before), lost], sys.stdout)
