"""Every series that a server may show, with the labels that Prometheus adds."""

from dataclasses import replace

from prometheus_client.parser import text_string_to_metric_families

from engine.stats import BlockCounts, CacheInfo, Histogram
from server.metrics import Metrics, Reading, empty_snapshot
from server.recorder import RequestMetrics
from server.service import State

CACHE = CacheInfo(
    block_size=16,
    num_blocks=10,
    block_bytes=4096,
    dtype="float32",
    layout="two groups",
    groups=("full attention", "sliding window of 64"),
)
STAGES_OF_EXECUTE = ("model", "masks", "sample")  # those that the runner tells
Series = tuple[str, dict[str, str]]


def series() -> list[Series]:
    """Those of a model with two groups that has run a step."""
    empty = Histogram((1.0,)).view()
    snapshot = replace(
        empty_snapshot(),
        groups=(BlockCounts(9, 1, 0, 0), BlockCounts(9, 0, 1, 0)),
        step_seconds=dict.fromkeys(STAGES_OF_EXECUTE, empty),
    )
    reading = Reading("m", State.READY, CACHE, snapshot, RequestMetrics().view())
    text, _ = Metrics(lambda: reading, vllm_names=False).render("")
    added = {"job": "tidemark", "instance": "tidemark:8000"}
    return [
        ("up", added),
        *(
            (sample.name, sample.labels | added)
            for family in text_string_to_metric_families(text.decode())
            for sample in family.samples
        ),
    ]
