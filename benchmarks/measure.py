"""Measure one server: from its start to its first answer, the workloads, its memory."""

import asyncio
import json
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field

from benchmarks.load import WORKLOADS, Client, Summary, prompt_of, warm_up
from benchmarks.process import HOST, Server, ServerFailed, serving

SEED = "7"
MAX_WORKLOAD_SECONDS = 3600  # a server that hangs ends the run
MEMORY_AFTER = "W2"


@dataclass(frozen=True)
class Contender:
    """A server to measure: its name, its command for a port, what answers 200 once it is ready, what requests add."""

    name: str
    command: Callable[[int], Sequence[str]]
    ready_path: str
    extra: Mapping[str, object]


@dataclass
class Run:
    """What was measured of one server, as far as it came. `failure` says why it came no further."""

    name: str
    first_answer_seconds: float | None = None
    resident_bytes: int | None = None
    results: dict[str, Summary] = field(default_factory=dict)
    failure: str | None = None

    def errors(self) -> list[str]:
        """One line for each workload in which requests failed, and one for the failure."""
        lines = [
            f"{self.name}, {workload}: {'; '.join(result['errors'])}"
            for workload, result in self.results.items()
            if result["errors"]
        ]
        return [*lines, self.failure] if self.failure else lines

    def values(self) -> dict[str, object]:
        """Everything, for JSON."""
        return asdict(self)


def measure(contender: Contender, workloads: Sequence[str], *, scale: float) -> Run:
    """Start the server, run the workloads in their order, end it. Where anything failed the log's end is shown."""
    run = Run(contender.name)
    try:
        with serving(contender.name, contender.command) as server:
            _measure(run, server, contender, workloads, scale)
    except (ServerFailed, OSError) as failure:
        run.failure = str(failure)
    return run


def _measure(run: Run, server: Server, contender: Contender, workloads: Sequence[str], scale: float) -> None:
    _tell(run.name, "starts")
    server.wait_until(contender.ready_path)
    client = Client(HOST, server.port, _model_of(server), contender.extra, usage=True)
    run.first_answer_seconds = _first_answer(client) - server.started
    asyncio.run(warm_up(client, SEED))
    for workload in workloads:
        _tell(run.name, workload)
        run.results[workload] = asyncio.run(_work(workload, client, scale))
        server.check_alive()
        if workload == MEMORY_AFTER:
            run.resident_bytes = server.resident_bytes()
    if run.errors():
        raise ServerFailed(f"requests to {run.name} failed")


def _tell(name: str, what: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {name}: {what}", file=sys.stderr, flush=True)


def _model_of(server: Server) -> str:
    """The id of the first model that the server lists."""
    _, body = server.get("/v1/models")
    model: str = json.loads(body)["data"][0]["id"]
    return model


def _first_answer(client: Client) -> float:
    """When the first token of the first request came."""
    stream = asyncio.run(client.complete(prompt_of(8, "first"), 1))
    if stream.error:
        raise ServerFailed(f"the first request failed: {stream.error}")
    return stream.arrivals[0]


async def _work(workload: str, client: Client, scale: float) -> Summary:
    try:
        async with asyncio.timeout(MAX_WORKLOAD_SECONDS):
            return await WORKLOADS[workload](client, SEED, scale)
    except TimeoutError:
        raise ServerFailed(f"{workload} was not done after {MAX_WORKLOAD_SECONDS} seconds") from None
