"""The speed of streams while somebody watches them, against their speed alone, by turns on one server."""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from statistics import median, quantiles

from benchmarks.load import MAX_LINE_BYTES, Client, at_most, prompt_of
from benchmarks.process import HOST, ServerFailed
from benchmarks.turns import Sizes

LOOKS_A_SECOND = 5
SCRAPE_SECONDS = 1.0
PROMPT_TOKENS = 32


@dataclass
class Seen:
    """What watching brought, to show that there was something to see."""

    snapshots: int = 0
    scrapes: int = 0
    num_bytes: int = 0


@dataclass(frozen=True)
class Found:
    """Tokens a second alone and watched, round by round, and what was seen meanwhile."""

    alone: Sequence[float]
    watched: Sequence[float]
    seen: Seen


async def measure(port: int, model: str, sizes: Sizes) -> Found:
    """Run the same requests alone and watched, every other round the other way about. Raises ServerFailed."""
    client = Client(HOST, port, model, {"ignore_eos": True, "max_draft_tokens": 0}, usage=True)
    await _rate(client, sizes)  # what comes behind finds its prompts in the cache
    rates: dict[bool, list[float]] = {False: [], True: []}
    seen = Seen()
    for number in range(sizes.num_rounds):
        for is_watched in (False, True) if number % 2 == 0 else (True, False):
            if is_watched:
                async with _watching(port, seen):
                    rates[True].append(await _rate(client, sizes))
            else:
                rates[False].append(await _rate(client, sizes))
    return Found(rates[False], rates[True], seen)


async def _rate(client: Client, sizes: Sizes) -> float:
    """Tokens a second of all streams together."""
    jobs = [(prompt_of(PROMPT_TOKENS, f"watch{number}"), sizes.num_outputs) for number in range(sizes.num_streams)]
    streams, seconds = await at_most(sizes.num_streams, client, jobs)
    for stream in streams:
        if stream.error:
            raise ServerFailed(f"a stream failed: {stream.error}")
    return sum(stream.output_tokens for stream in streams) / seconds


@asynccontextmanager
async def _watching(port: int, seen: Seen) -> AsyncIterator[None]:
    """Watch as the page and Prometheus do, as long as the context lasts."""
    async with asyncio.TaskGroup() as group:
        watchers = [group.create_task(_follow(port, seen)), group.create_task(_scrape(port, seen))]
        try:
            yield
        finally:
            for watcher in watchers:
                watcher.cancel()


async def _follow(port: int, seen: Seen) -> None:
    """Read and parse each snapshot, as the page does."""
    async with _asked(port, f"/ledger/events?every={1 / LOOKS_A_SECOND:g}") as reader:
        async for line in reader:
            if line.startswith(b"data:"):
                json.loads(line[5:])
                seen.snapshots += 1
                seen.num_bytes += len(line)


async def _scrape(port: int, seen: Seen) -> None:
    while True:
        began = time.perf_counter()
        async with _asked(port, "/metrics") as reader:
            await reader.read()
        seen.scrapes += 1
        await asyncio.sleep(max(0.0, SCRAPE_SECONDS - (time.perf_counter() - began)))


@asynccontextmanager
async def _asked(port: int, path: str) -> AsyncIterator[asyncio.StreamReader]:
    """The body of a GET, behind its head. Raises ServerFailed."""
    reader, writer = await asyncio.open_connection(HOST, port, limit=MAX_LINE_BYTES)
    try:
        writer.write(f"GET {path} HTTP/1.1\r\nHost: {HOST}\r\nConnection: close\r\n\r\n".encode())
        head = await reader.readuntil(b"\r\n\r\n")
        if head.split()[1] != b"200":
            raise ServerFailed(f"{path} answered {head.split()[1].decode()}")
        yield reader
    finally:
        writer.close()


def watching_text(found: Found) -> str:
    """The table: rounds that were watched, each beside the one without."""
    losses = [1 - watched / alone for watched, alone in zip(found.watched, found.alone, strict=True)]
    low, high = _middle(losses)
    seen, size = found.seen, found.seen.num_bytes / max(1, found.seen.snapshots)
    rows = (
        "| the same requests | tokens/s | slower by, median | half of the rounds |",
        "| --- | ---: | ---: | ---: |",
        f"| alone | {median(found.alone):.0f} | | |",
        f"| watched | {median(found.watched):.0f} | {median(losses):.1%} | {low:.1%} to {high:.1%} |",
        "",
        f"Seen: {seen.snapshots} snapshots of {size:,.0f} bytes, {seen.scrapes} scrapes.",
    )
    return "\n".join(rows)


def _middle(values: Sequence[float]) -> tuple[float, float]:
    """The values that half of all lie between."""
    if len(values) == 1:
        return values[0], values[0]
    first, _, third = quantiles(values, n=4, method="inclusive")
    return first, third
