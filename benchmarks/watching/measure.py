"""The speed of streams while somebody watches them, against their speed alone, by turns on one server."""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import NoReturn

from benchmarks.load import MAX_LINE_BYTES, Client, at_most, prompt_of
from benchmarks.process import HOST, ServerFailed
from benchmarks.turns import Sizes
from benchmarks.watching.processor import Processor

LOOKS_A_SECOND = 5
SCRAPE_SECONDS = 1.0
SCRAPED_AS = {"Accept": "application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5"}  # by Prometheus
PROMPT_TOKENS = 32


@dataclass
class Seen:
    """What watching brought, to show that there was something to see."""

    snapshots: int = 0
    scrapes: int = 0
    num_bytes: int = 0


@dataclass(frozen=True)
class Round:
    """All streams once: their tokens, how long they took, and the server's processor time."""

    tokens: int
    seconds: float
    processor: Processor

    @property
    def rate(self) -> float:
        """Tokens a second."""
        return self.tokens / self.seconds


@dataclass(frozen=True)
class Pair:
    """The same requests alone and watched, one right after the other."""

    alone: Round
    watched: Round


@dataclass(frozen=True)
class Found:
    """What was measured, and what was seen meanwhile."""

    pairs: Sequence[Pair]
    seen: Seen


async def measure(port: int, model: str, sizes: Sizes) -> Found:
    """Run the same requests alone and watched, every other pair the other way about. Raises ServerFailed."""
    streams = _Streams(port, model, sizes)
    await streams.run()  # what comes behind finds its prompts in the cache
    seen = Seen()
    return Found(
        [await _pair(streams, seen, watched_first=bool(number % 2)) for number in range(sizes.num_rounds)], seen
    )


async def _pair(streams: "_Streams", seen: Seen, *, watched_first: bool) -> Pair:
    if watched_first:
        watched = await streams.run_watched(seen)
        return Pair(await streams.run(), watched)
    return Pair(await streams.run(), await streams.run_watched(seen))


class _Streams:
    """The requests that are run again and again."""

    def __init__(self, port: int, model: str, sizes: Sizes) -> None:
        self._port = port
        self._client = Client(HOST, port, model, {"ignore_eos": True, "max_draft_tokens": 0}, usage=True)
        self._jobs = [
            (prompt_of(PROMPT_TOKENS, f"watch{number}"), sizes.num_outputs) for number in range(sizes.num_streams)
        ]

    async def run(self) -> Round:
        """All of them at once."""
        before = await self._used()
        streams, seconds = await at_most(len(self._jobs), self._client, self._jobs)
        after = await self._used()
        for stream in streams:
            if stream.error:
                raise ServerFailed(f"a stream failed: {stream.error}")
        tokens = sum(stream.output_tokens for stream in streams)
        return Round(tokens, seconds, after - before)

    async def _used(self) -> Processor:
        async with _asked(self._port, "/metrics") as reader:
            return Processor.of((await reader.read()).decode())

    async def run_watched(self, seen: Seen) -> Round:
        """The same while somebody watches, who has been told everything once."""
        async with _watching(self._port, seen):
            return await self.run()


@asynccontextmanager
async def _watching(port: int, seen: Seen) -> AsyncIterator[None]:
    """Watch as the page and Prometheus do, as long as the context lasts."""
    async with asyncio.TaskGroup() as group, AsyncExitStack() as stack:
        begun = asyncio.Event()
        for watcher in (_follow(port, seen, begun), _scrape(port, seen)):
            stack.callback(group.create_task(watcher).cancel)
        await begun.wait()
        yield


async def _follow(port: int, seen: Seen, begun: asyncio.Event) -> NoReturn:
    """Read and parse each snapshot, as the page does."""
    async with _asked(port, f"/ledger/events?every={1 / LOOKS_A_SECOND:g}") as reader:
        async for line in reader:
            if line.startswith(b"data:"):
                json.loads(line[5:])
                seen.snapshots += 1
                seen.num_bytes += len(line)
                begun.set()
    raise ServerFailed("the events have ended")


async def _scrape(port: int, seen: Seen) -> NoReturn:
    """Read the metrics in the middle of every second."""
    await asyncio.sleep(SCRAPE_SECONDS / 2)
    while True:
        began = time.perf_counter()
        async with _asked(port, "/metrics", SCRAPED_AS) as reader:
            await reader.read()
        seen.scrapes += 1
        await asyncio.sleep(max(0.0, SCRAPE_SECONDS - (time.perf_counter() - began)))


@asynccontextmanager
async def _asked(port: int, path: str, headers: Mapping[str, str] | None = None) -> AsyncIterator[asyncio.StreamReader]:
    """The body of a GET, behind its head. Raises ServerFailed."""
    reader, writer = await asyncio.open_connection(HOST, port, limit=MAX_LINE_BYTES)
    try:
        lines = {"Host": HOST, "Connection": "close", **(headers or {})}
        head = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
        writer.write(f"GET {path} HTTP/1.1\r\n{head}\r\n".encode())
        answer = await reader.readuntil(b"\r\n\r\n")
        if answer.split()[1] != b"200":
            raise ServerFailed(f"{path} answered {answer.split()[1].decode()}")
        yield reader
    finally:
        writer.close()
