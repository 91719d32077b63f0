"""Prometheus as a process: told what to scrape, asked what it found."""

import math
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import httpx

from deploy.watch import configure, prometheus
from tests.deploy.watched import Tree

SECONDS = 120  # far beyond what it takes to start or to scrape once
Found = list[tuple[dict[str, str], float]]


class Prometheus:
    """One that runs, over its HTTP API."""

    def __init__(self, client: httpx.Client) -> None:
        self._client = client

    def query(self, expr: str) -> Found:
        """What a query returns now, numbers only: a rate without a second sample is none."""
        answer = self._get("/api/v1/query", {"query": expr})
        found = [(one["metric"], float(one["value"][1])) for one in answer["result"]]
        return [(labels, value) for labels, value in found if math.isfinite(value)]

    def rules(self) -> list[Tree]:
        """Every rule, with its health and, for an alert, its state."""
        return [rule for group in self._get("/api/v1/rules", {})["groups"] for rule in group["rules"]]

    def values(self, label: str, selector: str) -> list[str]:
        """The values of a label over the series that a selector takes, as the board's variables ask."""
        found: list[str] = self._get(f"/api/v1/label/{label}/values", {"match[]": selector})
        return found

    def wait_for(self, expr: str) -> None:
        """Until a query returns something. Raises TimeoutError where it never does."""
        end = time.monotonic() + SECONDS
        while not self._answers(expr):
            if time.monotonic() > end:
                raise TimeoutError(expr)
            time.sleep(0.2)

    def _answers(self, expr: str) -> bool:
        try:
            return self._client.get("/-/ready").is_success and bool(self.query(expr))
        except httpx.TransportError:  # it has not begun to listen; once it has, it takes a moment until it is ready
            return False

    def _get(self, path: str, parameters: dict[str, str]) -> Any:  # JSON by its nature
        answer = self._client.get(path, params=parameters)
        body: Tree = answer.json()
        assert answer.status_code == 200, body
        return body["data"]


@contextmanager
def watching(program: str, target: str, *, listen: str) -> Iterator[Prometheus]:
    """Prometheus as `make watch` starts it, but that it scrapes once a second."""
    with TemporaryDirectory(prefix="tidemark-test-watch-") as name:
        folder = Path(name)
        config = configure(folder, target)
        config.write_text(config.read_text().replace("interval: 5s", "interval: 1s"))
        command = prometheus(program, config=config, data=folder / "data", listen=listen)
        process = subprocess.Popen(command)
        try:
            with httpx.Client(base_url=f"http://{listen}", timeout=SECONDS) as client:
                yield Prometheus(client)
        finally:
            process.terminate()
            process.wait()
