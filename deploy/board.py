"""Prints the Grafana board: `python deploy/board.py > deploy/grafana/tidemark.json`."""

import json
import sys
from dataclasses import dataclass
from itertools import count
from typing import Any

OF = 'model=~"$model", instance=~"$instance"'  # stands for each @ in a query
SOURCE = {"type": "prometheus", "uid": "${source}"}
WIDTH, HEIGHT = 24, 8  # of the board and of a panel, in Grafana's units
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


def _rates(metric: str, label: str, matchers: str = "@") -> Query:
    """How much a counter rises a second, by a label."""
    return Query(f"sum by ({label}) (rate({metric}{{{matchers}}}[$__rate_interval]))", f"{{{{{label}}}}}")


def _rate(metric: str, legend: str, matchers: str = "@") -> Query:
    return Query(f"sum(rate({metric}{{{matchers}}}[$__rate_interval]))", legend)


def _percentiles(metric: str) -> tuple[Query, ...]:
    rate = f"sum by (le) (rate({metric}_bucket{{@}}[$__rate_interval]))"
    return tuple(Query(f"histogram_quantile({percent / 100}, {rate})", f"p{percent}") for percent in PERCENTILES)


def _mean(metric: str, legend: str, by: str = "") -> Query:
    total, number = (f"sum{by}(rate({metric}_{part}{{@}}[$__rate_interval]))" for part in ("sum", "count"))
    return Query(f"{total} / {number}", legend)


ROWS: tuple[tuple[str, tuple[Panel, ...]], ...] = (
    (
        "Now",
        (
            Panel(
                "State",
                "What each server is doing. Any other than ready takes no requests.",
                "none",
                (Query("tidemark_server_state{@} == 1", "{{instance}}: {{state}}"),),
                stat=True,
                width=6,
            ),
            Panel(
                "Sequences",
                "Those that run, wait in the queue, pause for a slow reader, or wait for a client to come back.",
                "none",
                tuple(
                    Query(f"sum(tidemark_requests_{state}{{@}})", state)
                    for state in ("running", "waiting", "paused", "parked")
                ),
                width=9,
            ),
            Panel(
                "Tokens a second",
                "Outputs handed to clients, and positions of prompts and outputs that were computed.",
                "none",
                (
                    _rate("tidemark_positions_total", "published", '@, event="published"'),
                    _rate("tidemark_positions_total", "computed", '@, event="computed"'),
                ),
                width=9,
            ),
        ),
    ),
    (
        "Cache",
        (
            Panel(
                "Blocks by state",
                "A partition that fills the capacity: no content, one owner, several owners, no owner but reusable.",
                "none",
                (
                    Query("sum by (state) (tidemark_kv_blocks{@})", "{{state}}"),
                    Query("sum(tidemark_kv_blocks_capacity{@})", "capacity", outline=True),
                ),
                stacked=True,
            ),
            Panel(
                "Blocks in use by group",
                "Where layers keep different things, which of them use the pool. Empty for a model of one kind.",
                "none",
                (Query("sum by (group, state) (tidemark_kv_group_blocks{@})", "{{group}}: {{state}}"),),
                stacked=True,
            ),
            Panel(
                "Recurrent states by state",
                "Slots that hold a running sequence's state, or a checkpoint. All 0 for a model without such layers.",
                "none",
                (
                    Query("sum by (state) (tidemark_state_slots{@})", "{{state}}"),
                    Query("sum(tidemark_state_slots_capacity{@})", "capacity", outline=True),
                ),
                stacked=True,
            ),
            Panel(
                "Held by sequences",
                "The part of the cache that can't be taken for others without a preemption.",
                "percentunit",
                (Query("tidemark_kv_usage_ratio{@}", "{{instance}}"),),
            ),
            Panel(
                "Prefix hit rate",
                "Prompt tokens found in the cache, of those looked up.",
                "percentunit",
                (
                    Query(
                        "sum(rate(tidemark_prefix_cache_hits_total{@}[$__rate_interval]))"
                        " / sum(rate(tidemark_prefix_cache_queries_total{@}[$__rate_interval]))",
                        "found",
                    ),
                ),
            ),
            Panel(
                "Held and empty",
                "Positions of held blocks that nothing was computed for: what whole blocks cost.",
                "none",
                (Query("sum(tidemark_kv_tail_positions{@})", "positions"),),
            ),
        ),
    ),
    (
        "Marks",
        (
            Panel(
                "Positions a second",
                "How fast the marks move. Computed without accepted is prompts; planned beyond computed is lost work.",
                "none",
                (_rates("tidemark_positions_total", "event"),),
                width=12,
            ),
            Panel(
                "Marks that went back, a second",
                "Rejected drafts, preemptions, steps that failed, results that no longer fitted.",
                "none",
                (_rates("tidemark_rollbacks_total", "reason"), _rate("tidemark_preemptions_total", "preemptions")),
                width=6,
            ),
            Panel(
                "Positions a step",
                "How much a step computes, on average.",
                "none",
                (_mean("tidemark_step_positions", "positions"),),
                width=6,
            ),
        ),
    ),
    (
        "Times",
        (
            Panel("Queue", "From arrival to admission.", "s", _percentiles("tidemark_request_queue_seconds")),
            Panel(
                "First token",
                "From arrival to the first output.",
                "s",
                _percentiles("tidemark_time_to_first_token_seconds"),
            ),
            Panel(
                "Gaps", "Between two outputs of a sequence.", "s", _percentiles("tidemark_inter_token_latency_seconds")
            ),
            Panel(
                "Step by stage",
                "Mean time of a step's stages; model and sample are parts of execute.",
                "s",
                (_mean("tidemark_step_seconds", "{{stage}}", by=" by (stage) "),),
            ),
            Panel(
                "What a step may take, and costs",
                "The goal for the next step with prompts, and what was learned that its parts cost.",
                "s",
                (
                    Query("max(tidemark_step_goal_seconds{@})", "goal"),
                    Query("max by (part) (tidemark_step_cost_seconds{@})", "{{part}}"),
                ),
            ),
            Panel(
                "Whole request",
                "From arrival to the answer's end.",
                "s",
                _percentiles("tidemark_request_duration_seconds"),
            ),
        ),
    ),
    (
        "Drafts",
        (
            Panel(
                "Drafted tokens a second",
                "Guessed tokens that a step verified, by who guessed them.",
                "none",
                (_rates("tidemark_draft_tokens_total", "source"),),
            ),
            Panel(
                "Kept",
                "Of the guessed tokens, those that stood. Low for long: drafts cost more than they give.",
                "percentunit",
                (
                    Query(
                        "sum by (source) (rate(tidemark_draft_tokens_accepted_total{@}[$__rate_interval]))"
                        " / sum by (source) (rate(tidemark_draft_tokens_total{@}[$__rate_interval]))",
                        "{{source}}",
                    ),
                ),
            ),
            Panel(
                "Rejections a second",
                "Drafts by who made them, those of which something fell, and positions that were planned and not kept.",
                "none",
                (
                    _rates("tidemark_drafts_total", "source"),
                    _rate("tidemark_rollbacks_total", "rejections", '@, reason="rejected"'),
                    _rate("tidemark_positions_total", "rejected positions", '@, event="rejected"'),
                ),
            ),
        ),
    ),
    (
        "Grammars",
        (
            Panel(
                "Grammars a second, by outcome",
                "What requests asked for: compiled now, kept from before, or refused.",
                "none",
                (_rates("tidemark_grammars_total", "outcome"),),
                stacked=True,
            ),
            Panel(
                "Compiling",
                "From asking for a grammar that is not kept until it is ready, or refused.",
                "s",
                _percentiles("tidemark_grammar_compile_seconds"),
            ),
            Panel(
                "Waited for masks",
                "Of the time of steps, what they waited for the tokens that grammars allow.",
                "percentunit",
                (
                    Query(
                        'sum(rate(tidemark_step_seconds_sum{@, stage="masks"}[$__rate_interval]))'
                        ' / sum(rate(tidemark_step_seconds_sum{@, stage="execute"}[$__rate_interval]))',
                        "waited",
                    ),
                ),
            ),
        ),
    ),
    (
        "Requests",
        (
            Panel(
                "Ended a second, by outcome",
                "Finished, refused (the client's mistake, or no room), aborted (the client left), failed (ours).",
                "none",
                (_rates("tidemark_requests_total", "outcome"),),
                stacked=True,
                width=6,
            ),
            Panel(
                "Ended a second, by endpoint",
                "The same requests by where they came in.",
                "none",
                (_rates("tidemark_requests_total", "endpoint"),),
                stacked=True,
                width=6,
            ),
            Panel(
                "Refusals a second",
                "Turned away by the engine, by reason.",
                "none",
                (_rates("tidemark_admission_refusals_total", "reason"),),
                width=6,
            ),
            Panel(
                "Errors",
                "Of the requests that ended in five minutes, those that failed.",
                "percentunit",
                (Query("tidemark:requests_failed:ratio_rate5m{@}", "{{instance}}"),),
                width=6,
            ),
            Panel(
                "Clients that left, a second",
                "Streams closed before their end.",
                "none",
                (_rate("tidemark_client_disconnects_total", "left"),),
            ),
            Panel(
                "Tokens a request",
                "Mean sizes.",
                "none",
                (
                    _mean("tidemark_request_prompt_tokens", "prompt"),
                    _mean("tidemark_request_generated_tokens", "outputs"),
                ),
            ),
            Panel(
                "Process",
                "Resident memory: it grows with the load up to the cache's size, and then stays.",
                "bytes",
                (Query('process_resident_memory_bytes{job="tidemark", instance=~"$instance"}', "{{instance}}"),),
            ),
        ),
    ),
)


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
