"""Load a server of the OpenAI kind with fixed workloads and print one JSON line for each.

    load.py W1 W2 --port 8000 --model M [--extra '{"ignore_eos": true}'] [--scale 0.5] [--shrink 0.1]

Prompts are random English words, one token each in the default model's vocabulary
(words.json), different in every request unless the workload shares a prefix. Greedy,
streamed, /v1/completions. One file and the standard library only, so that it can be taken to any peer.

    W1  one stream, 128 in, 128 out, three times, the median run
    W2  32 requests, 16 at once, 256 in, 128 out
    W3  12 requests, 4 at once, 1024 in, 16 out (prefill)
    W4  24 requests, 8 at once, a shared prefix of 1024 and 64 of their own, 64 out, after one to warm it
    W5  8 streams of 64 in, 200 out; after 2 s a prompt of 2048 arrives: what the streams feel
"""

import argparse
import asyncio
import json
import random
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from itertools import pairwise
from pathlib import Path
from typing import Any, NotRequired, Protocol, TypedDict

WORDS: list[str] = json.loads((Path(__file__).parent / "words.json").read_text())
MAX_LINE_BYTES = 1 << 22  # a server may send much at once
MAX_ERROR_CHARACTERS = 200
LATE_SECONDS = 2  # when W5's long prompt arrives
MIN_TOKENS = 2  # with fewer there is no gap to measure

Job = tuple[str, int]  # a prompt, and how many tokens to write


class Gaps(TypedDict):
    """Gaps between tokens in one part of a run."""

    gaps: int
    p50_ms: float | None
    max_ms: float | None


class Long(TypedDict):
    """What became of W5's long prompt."""

    error: str | None
    ttft_ms: float | None


class Summary(TypedDict):
    """One workload's figures. `long`, `before` and `during` are W5's: the last two need an answer to the first."""

    requests: int
    errors: list[str]
    wall_s: float
    output_tokens: int
    prompt_tokens: int
    cached_tokens: int
    output_per_s: float
    prompt_per_s: float
    ttft_p50_ms: float | None
    ttft_p99_ms: float | None
    itl_p50_ms: float | None
    itl_p99_ms: float | None
    gap_max_ms: float | None
    decode_per_s_p50: float
    long: NotRequired[Long]
    before: NotRequired[Gaps]
    during: NotRequired[Gaps]


class BadAnswer(Exception):
    """The server refused the request or ended it with an error."""


@dataclass
class Stream:
    """One request as the client saw it. Times are in seconds of one clock."""

    started: float
    ended: float = 0.0
    arrivals: list[float] = field(default_factory=list)
    prompt_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    error: str | None = None

    def gaps(self) -> list[tuple[float, float]]:
        """Each arrival with the next."""
        return list(pairwise(self.arrivals))

    def ttft(self) -> float:
        """Seconds until the first token."""
        return self.arrivals[0] - self.started

    def decode_rate(self) -> float:
        """Tokens a second once the first is there."""
        return (self.output_tokens - 1) / max(self.arrivals[-1] - self.arrivals[0], 1e-9)


class Completer(Protocol):
    """What the workloads are run on: a server behind HTTP, or a program that has none."""

    async def complete(self, prompt: str, max_tokens: int) -> Stream:
        """Run one request to its end, whatever that is."""
        ...


@dataclass(frozen=True)
class Size:
    """How much of each workload is run: a share of the requests in W2 to W4, and of all tokens.

    Rates can be compared where `tokens` is 1, and only there.
    """

    requests: float = 1.0
    tokens: float = 1.0

    def numbers(self, num_requests: int) -> range:
        """The numbers of a workload's requests; at least one."""
        return range(max(1, round(num_requests * self.requests)))

    def count(self, num_tokens: int) -> int:
        """How many tokens stand for so many."""
        return max(MIN_TOKENS, round(num_tokens * self.tokens))


@dataclass(frozen=True)
class Client:
    """Sends completions to one server. `extra` is merged into each request; `usage` asks for the server's counts."""

    host: str
    port: int
    model: str
    extra: Mapping[str, object]
    usage: bool

    async def complete(self, prompt: str, max_tokens: int) -> Stream:
        """Run one request to its end, whatever that is."""
        stream = Stream(started=time.perf_counter())
        try:
            await self._read(self._body(prompt, max_tokens), stream)
        except (OSError, ValueError, BadAnswer, asyncio.IncompleteReadError) as error:
            stream.error = f"{type(error).__name__}: {error}"[:MAX_ERROR_CHARACTERS]
        stream.ended = time.perf_counter()
        stream.output_tokens = stream.output_tokens or len(stream.arrivals)
        if not stream.arrivals and not stream.error:
            stream.error = "no tokens"
        return stream

    def _body(self, prompt: str, max_tokens: int) -> bytes:
        body = {"model": self.model, "prompt": prompt, "max_tokens": max_tokens, "stream": True, "temperature": 0}
        if self.usage:
            body["stream_options"] = {"include_usage": True}
        return json.dumps({**body, **self.extra}).encode()

    async def _read(self, body: bytes, stream: Stream) -> None:
        reader, writer = await asyncio.open_connection(self.host, self.port, limit=MAX_LINE_BYTES)
        try:
            writer.write(self._head(len(body)) + body)
            await writer.drain()
            status = int((await reader.readuntil(b"\r\n\r\n")).split()[1])
            if status != HTTPStatus.OK:
                raise BadAnswer(f"HTTP {status} {await reader.read(300)!r}")
            await _take_events(reader, stream)
        finally:
            writer.close()

    def _head(self, num_bytes: int) -> bytes:
        lines = (
            "POST /v1/completions HTTP/1.1",
            f"Host: {self.host}",
            "Content-Type: application/json",
            "Authorization: Bearer x",
            "Connection: close",
            f"Content-Length: {num_bytes}",
        )
        return "\r\n".join((*lines, "", "")).encode()


async def _take_events(reader: asyncio.StreamReader, stream: Stream) -> None:
    async for line in reader:
        if not line.startswith(b"data:"):
            continue
        payload = line[5:].strip()
        if payload == b"[DONE]":
            return
        take(json.loads(payload), stream)


def take(event: dict[str, Any], stream: Stream) -> None:
    """Note one event of a stream, now."""
    if event.get("error"):
        raise BadAnswer(str(event["error"]))
    if usage := event.get("usage"):
        stream.prompt_tokens, stream.output_tokens = usage["prompt_tokens"], usage["completion_tokens"]
        stream.cached_tokens = (usage.get("prompt_tokens_details") or {}).get("cached_tokens") or 0
    for choice in event.get("choices") or []:
        if choice.get("text") or choice.get("finish_reason") is None:
            stream.arrivals.append(time.perf_counter())


def prompt_of(num_tokens: int, seed: str) -> str:
    """Random words, one token each."""
    chosen = random.Random(seed)
    return "".join(" " + chosen.choice(WORDS) for _ in range(num_tokens))


async def at_most(concurrency: int, client: Completer, jobs: Sequence[Job]) -> tuple[list[Stream], float]:
    """Run the jobs, so many at once, and tell how long all of them took."""
    gate = asyncio.Semaphore(concurrency)

    async def run(prompt: str, max_tokens: int) -> Stream:
        async with gate:
            return await client.complete(prompt, max_tokens)

    began = time.perf_counter()
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(run(*job)) for job in jobs]
    return [task.result() for task in tasks], time.perf_counter() - began


def percentile(values: Iterable[float], share: float) -> float | None:
    """The value that has `share` of the others below it."""
    ordered = sorted(values)
    return ordered[min(int(share * len(ordered)), len(ordered) - 1)] if ordered else None


def milliseconds(seconds: float | None) -> float | None:
    """Seconds in milliseconds, rounded."""
    return None if seconds is None else round(seconds * 1e3, 1)


def summary(streams: Sequence[Stream], wall: float) -> Summary:
    """The figures of a run that took `wall` seconds; those of streams with an error are left out."""
    good = [stream for stream in streams if not stream.error]
    gaps = [after - before for stream in good for before, after in stream.gaps()]
    ttfts = [stream.ttft() for stream in good]
    prompt_tokens = sum(stream.prompt_tokens for stream in good)
    output_tokens = sum(stream.output_tokens for stream in good)
    return {
        "requests": len(streams),
        "errors": [stream.error for stream in streams if stream.error][:3],
        "wall_s": round(wall, 2),
        "output_tokens": output_tokens,
        "prompt_tokens": prompt_tokens,
        "cached_tokens": sum(stream.cached_tokens for stream in good),
        "output_per_s": round(output_tokens / wall, 1),
        "prompt_per_s": round(prompt_tokens / wall, 1),
        "ttft_p50_ms": milliseconds(percentile(ttfts, 0.5)),
        "ttft_p99_ms": milliseconds(percentile(ttfts, 0.99)),
        "itl_p50_ms": milliseconds(percentile(gaps, 0.5)),
        "itl_p99_ms": milliseconds(percentile(gaps, 0.99)),
        "gap_max_ms": milliseconds(max(gaps, default=None)),
        "decode_per_s_p50": round(percentile((stream.decode_rate() for stream in good), 0.5) or 0, 1),
    }


async def w1(client: Completer, seed: str, size: Size) -> Summary:
    """One stream alone; the median of three runs."""
    long = size.count(128)
    runs = [summary(*await at_most(1, client, [(prompt_of(long, f"{seed}w1{i}"), long)])) for i in range(3)]
    return sorted(runs, key=lambda run: run["output_per_s"])[1]


async def w2(client: Completer, seed: str, size: Size) -> Summary:
    """Sixteen at once."""
    jobs = [(prompt_of(size.count(256), f"{seed}w2{i}"), size.count(128)) for i in size.numbers(32)]
    return summary(*await at_most(16, client, jobs))


async def w3(client: Completer, seed: str, size: Size) -> Summary:
    """Long prompts, short answers."""
    jobs = [(prompt_of(size.count(1024), f"{seed}w3{i}"), size.count(16)) for i in size.numbers(12)]
    return summary(*await at_most(4, client, jobs))


async def w4(client: Completer, seed: str, size: Size) -> Summary:
    """A long prefix that all share."""
    shared, own = prompt_of(size.count(1024), f"{seed}w4"), size.count(64)
    await at_most(1, client, [(shared + prompt_of(own, f"{seed}w4warm"), size.count(8))])
    jobs = [(shared + prompt_of(own, f"{seed}w4{i}"), own) for i in size.numbers(24)]
    return summary(*await at_most(8, client, jobs))


async def w5(client: Completer, seed: str, size: Size) -> Summary:
    """Eight streams, and a long prompt that arrives among them."""

    async def late() -> Stream:
        await asyncio.sleep(LATE_SECONDS * size.tokens)
        return await client.complete(prompt_of(size.count(2048), f"{seed}w5long"), size.count(8))

    jobs = [(prompt_of(size.count(64), f"{seed}w5{i}"), size.count(200)) for i in range(8)]
    async with asyncio.TaskGroup() as group:
        arriving = group.create_task(late())
        streams, wall = await at_most(8, client, jobs)
    return disturbed(summary(streams, wall), streams, arriving.result())


def disturbed(result: Summary, streams: Sequence[Stream], long: Stream) -> Summary:
    """Add to the streams' figures what they felt before the long prompt came and while it was computed."""
    result["long"] = {"error": long.error, "ttft_ms": milliseconds(long.ttft()) if long.arrivals else None}
    if long.arrivals:
        pairs = [pair for stream in streams for pair in stream.gaps()]
        result["before"] = gaps_of((a, b) for a, b in pairs if b <= long.started)
        result["during"] = gaps_of((a, b) for a, b in pairs if b > long.started and a < long.arrivals[0])
    return result


def gaps_of(pairs: Iterable[tuple[float, float]]) -> Gaps:
    """How long the gaps between these arrivals are."""
    gaps = [after - before for before, after in pairs]
    return {
        "gaps": len(gaps),
        "p50_ms": milliseconds(percentile(gaps, 0.5)),
        "max_ms": milliseconds(max(gaps, default=None)),
    }


Workload = Callable[[Completer, str, Size], Awaitable[Summary]]
WORKLOADS: Mapping[str, Workload] = {"W1": w1, "W2": w2, "W3": w3, "W4": w4, "W5": w5}


async def warm_up(client: Completer, seed: str) -> list[Stream]:
    """Two short requests, so that no workload pays for what a server does only once."""
    streams, _ = await at_most(2, client, [(prompt_of(32, f"{seed}warm{i}"), 8) for i in range(2)])
    return streams


async def run(args: argparse.Namespace) -> None:
    """Run the workloads that were asked for and print a line for each."""
    client = Client(args.host, args.port, args.model, args.extra, usage=not args.no_usage)
    await warm_up(client, args.seed)
    for name in args.workloads:
        result = await WORKLOADS[name](client, args.seed, Size(args.scale, args.shrink))
        print(json.dumps({"workload": name, **result}), flush=True)


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("workloads", nargs="+", choices=WORKLOADS)
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8000)
    parser.add_argument("--model", default="m")
    parser.add_argument("--extra", type=json.loads, default={}, help="JSON merged into each request")
    parser.add_argument("--no-usage", action="store_true", help="for servers without stream_options")
    parser.add_argument("--seed", default="7")
    parser.add_argument("--scale", type=float, default=1.0, help="share of the requests in W2, W3, W4")
    parser.add_argument("--shrink", type=float, default=1.0, help="share of the tokens, to see that it works")
    asyncio.run(run(parser.parse_args()))


if __name__ == "__main__":
    main()
