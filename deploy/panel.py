"""Panel: queries of Prometheus drawn on the board, as Grafana has them."""

from dataclasses import dataclass
from itertools import count
from typing import Any

OF = 'model=~"$model", instance=~"$instance"'  # stands for each @ in a query
SOURCE = {"type": "prometheus", "uid": "${source}"}
HEIGHT = 8  # of a panel, in Grafana's units
PERCENTILES = (50, 95, 99)
Json = dict[str, Any]  # JSON by its nature


@dataclass(frozen=True, slots=True)
class Query:
    """One query of a panel; `legend` names its lines, and an `outline` stands beside the stack."""

    expr: str
    legend: str
    outline: bool = False

    def json(self, letter: str) -> Json:
        """As Grafana has it."""
        expr = self.expr.replace("@", OF)
        return {"refId": letter, "datasource": SOURCE, "expr": expr, "legendFormat": self.legend, "range": True}


@dataclass(frozen=True, slots=True)
class Panel:
    """Queries drawn over time, one on another where `stacked`; a `stat` is the last value alone."""

    title: str
    text: str
    unit: str
    queries: tuple[Query, ...]
    stacked: bool = False
    stat: bool = False
    width: int = 8

    def json(self, number: int, x: int, y: int) -> Json:
        """As Grafana has it, at a place."""
        letters = (chr(ord("A") + index) for index in count())
        return {
            "id": number,
            "type": "stat" if self.stat else "timeseries",
            "title": self.title,
            "description": self.text,
            "datasource": SOURCE,
            "gridPos": {"x": x, "y": y, "w": self.width, "h": HEIGHT},
            "targets": [query.json(letter) for query, letter in zip(self.queries, letters, strict=False)],
            "fieldConfig": {"defaults": self._defaults(), "overrides": self._overrides()},
            "options": self._options(),
        }

    def _defaults(self) -> Json:
        if self.stat:
            return {"unit": self.unit}
        drawn = {"stacking": {"mode": "normal" if self.stacked else "none"}, "showPoints": "never"}
        return {"unit": self.unit, "min": 0, "custom": drawn | {"fillOpacity": 60 if self.stacked else 10}}

    def _overrides(self) -> list[Json]:
        alone = [{"id": "custom.stacking", "value": {"mode": "none"}}, {"id": "custom.fillOpacity", "value": 0}]
        outlines = (query.legend for query in self.queries if query.outline)
        return [{"matcher": {"id": "byName", "options": legend}, "properties": alone} for legend in outlines]

    def _options(self) -> Json:
        if self.stat:
            return {"textMode": "value_and_name", "reduceOptions": {"calcs": ["lastNotNull"]}}
        return {"legend": {"displayMode": "list", "placement": "bottom"}, "tooltip": {"mode": "multi", "sort": "none"}}


def rates(metric: str, label: str, matchers: str = "@") -> Query:
    """How much a counter rises a second, by a label."""
    return Query(f"sum by ({label}) (rate({metric}{{{matchers}}}[$__rate_interval]))", f"{{{{{label}}}}}")


def rate(metric: str, legend: str, matchers: str = "@") -> Query:
    """How much a counter rises a second, all of it together."""
    return Query(f"sum(rate({metric}{{{matchers}}}[$__rate_interval]))", legend)


def percentiles(metric: str) -> tuple[Query, ...]:
    """What so many of a histogram's values are below."""
    rising = f"sum by (le) (rate({metric}_bucket{{@}}[$__rate_interval]))"
    return tuple(Query(f"histogram_quantile({percent / 100}, {rising})", f"p{percent}") for percent in PERCENTILES)


def mean(metric: str, legend: str, by: str = "") -> Query:
    """A histogram's mean, `by` some labels."""
    total, number = (f"sum{by}(rate({metric}_{part}{{@}}[$__rate_interval]))" for part in ("sum", "count"))
    return Query(f"{total} / {number}", legend)
