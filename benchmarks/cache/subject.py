"""An engine in this process, asked one prompt after the other, and what its own clock says of each."""

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from config.settings import Settings
from engine.build import build
from engine.engine import Engine
from engine.request import End, Request, Sampling, Stopping

MIB = 1 << 20
CACHE_BYTES, CHECKPOINT_BYTES = 1024 * MIB, 512 * MIB  # touched only as far as they are used


@dataclass(frozen=True, slots=True)
class Answered:
    """What came of one prompt; seconds as in the server's metrics."""

    first_seconds: float  # from the request to its first token
    gap_seconds: float | None  # from a token to the next, on average; None with one output
    cached_tokens: int


def make_engine(path: str, *, num_threads: int, prefix_caching: bool = True) -> Engine:
    """Load a model as the server does. Raises ModelError."""
    cache = {"memory_bytes": CACHE_BYTES, "checkpoint_bytes": CHECKPOINT_BYTES, "prefix_caching": prefix_caching}
    model = {"path": path, "num_threads": num_threads}
    engine = {"max_draft_tokens": 0}  # a step is to give one token
    return build(Settings.model_validate({"model": model, "cache": cache, "engine": engine}), progress=_ignore).engine


def _ignore(_: str) -> None:
    """Loading has steps that nobody here waits for."""


@asynccontextmanager
async def running(*engines: Engine) -> AsyncIterator[None]:
    """Let engines answer as long as the context lasts."""
    async with asyncio.TaskGroup() as group:
        for engine in engines:
            group.create_task(engine.run())
        try:
            yield
        finally:
            for engine in engines:
                engine.stop()


async def read(engine: Engine, request: Request) -> tuple[list[int], End]:
    """The outputs of a request's only choice, and its end. Raises EngineError."""
    end: End | None = None
    tokens: list[int] = []
    async with engine.open(request) as deltas:
        async for delta in deltas:
            tokens += [token.id for token in delta.tokens]
            end = delta.end
    assert end is not None, "every stream has its end"
    if end.error is not None:
        raise end.error
    return tokens, end


async def ask(engine: Engine, prompt: tuple[int, ...], *, num_outputs: int = 1) -> Answered:
    """Let the engine answer one prompt, alone. Raises EngineError."""
    stopping = Stopping(max_tokens=num_outputs)
    before = engine.snapshot()
    _, end = await read(engine, Request("asked", prompt, Sampling(seed=0, temperature=0.0), stopping))
    after = engine.snapshot()
    gaps = after.inter_token_latency.sum - before.inter_token_latency.sum
    return Answered(
        first_seconds=after.time_to_first_token.sum - before.time_to_first_token.sum,
        gap_seconds=gaps / (num_outputs - 1) if num_outputs > 1 else None,
        cached_tokens=end.usage.cached_tokens,
    )


class Prompts:
    """Prompts of random tokens, the same ones in every run."""

    def __init__(self, engine: Engine, *, seed: int) -> None:
        self._random = random.Random(seed)
        self._tokens = range(engine.info.vocabulary_size)

    def fresh(self, length: int) -> tuple[int, ...]:
        """Tokens that nobody has seen before."""
        return tuple(self._random.choices(self._tokens, k=length))
