import re
from pathlib import Path

from server.metrics import Metrics, Reading
from server.recorder import RequestMetrics
from server.service import State
from tests.deploy.exposition import CACHE

DEPLOYING = (Path(__file__).parents[2] / "docs" / "deploying.md").read_text()


def test_every_metric_that_a_gateway_is_told_exists() -> None:
    reading = Reading("m", State.READY, CACHE, None, RequestMetrics().view())
    text, _ = Metrics(lambda: reading, vllm_names=True).render("")

    named = re.findall(r"`((?:tidemark_|vllm:)\w+)`", DEPLOYING)

    assert len(named) == 7
    assert all(f"\n{name}{{" in text.decode() for name in named)
