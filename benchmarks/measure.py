"""Measure one contender: from its start to its first answer, the workloads, its memory, who else had the cores."""

import asyncio
import json
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field

from benchmarks.cores import Cores
from benchmarks.load import WORKLOADS, Client, Size, Summary, prompt_of, warm_up
from benchmarks.process import HOST, Server, ServerFailed, serving

SEED = "7"
MAX_WORKLOAD_SECONDS = 3600  # a server that hangs ends the run
MEMORY_AFTER = "W2"


@dataclass
class Run:
    """What was measured of one contender, as far as it came. `failure` says why it came no further."""

    name: str
    first_answer_seconds: float | None = None
    resident_bytes: int | None = None
    others_share: float | None = None
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


Fill = Callable[[Run, Sequence[str], Size], None]


@dataclass(frozen=True)
class Contender:
    """What can be measured. `about` tells its version and settings, `left_out` the workloads that it is not asked.

    `fill` starts it, runs the workloads in their order, ends it, and notes in the run what they gave as soon as it is
    known. It raises ServerFailed, once the end of what the contender wrote has been shown, or OSError.
    """

    name: str
    about: str
    fill: Fill
    left_out: frozenset[str] = frozenset()


def over_http(command: Callable[[int], Sequence[str]], ready_path: str, extra: Mapping[str, object]) -> Fill:
    """Measure a server by its command for a port, what answers 200 once it is ready, and what requests add."""

    def fill(run: Run, workloads: Sequence[str], size: Size) -> None:
        with serving(run.name, command) as server:
            server.wait_until(ready_path)
            client = Client(HOST, server.port, _model_of(server), extra, usage=True)
            run.first_answer_seconds = _first_answer(client) - server.started
            asyncio.run(warm_up(client, SEED))
            for workload in workloads:
                tell(run.name, workload)
                run.results[workload] = asyncio.run(_work(workload, client, size))
                server.check_alive()
                if workload == MEMORY_AFTER:
                    run.resident_bytes = server.resident_bytes()
            check_errors(run)

    return fill


def measure(contender: Contender, workloads: Iterable[str], size: Size) -> Run:
    """Everything that the contender gives on those of the workloads that it is asked."""
    run = Run(contender.name)
    before = Cores.now()
    tell(run.name, "starts")
    try:
        contender.fill(run, [workload for workload in workloads if workload not in contender.left_out], size)
    except (ServerFailed, OSError) as failure:
        run.failure = str(failure)
    after = Cores.now()
    run.others_share = before.taken_by_others(after) if before and after else None
    return run


def check_errors(run: Run) -> None:
    """Raise ServerFailed if requests failed, so that the log's end is shown."""
    if run.errors():
        raise ServerFailed(f"requests to {run.name} failed")


def tell(name: str, what: str) -> None:
    """One line for those who wait."""
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


async def _work(workload: str, client: Client, size: Size) -> Summary:
    try:
        async with asyncio.timeout(MAX_WORKLOAD_SECONDS):
            return await WORKLOADS[workload](client, SEED, size)
    except TimeoutError:
        raise ServerFailed(f"{workload} was not done after {MAX_WORKLOAD_SECONDS} seconds") from None
