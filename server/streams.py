"""Streams: the answers to all prompts of one body, opened together and read as one."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

from engine.errors import EngineStopped
from engine.request import Delta, End, FinishReason, Request
from server.account import Account
from server.door import DeltaSource, EngineDoor
from server.errors import blaming, from_engine
from server.tasks import task_group


@dataclass(frozen=True, slots=True)
class Arrival:
    """A delta, and which of the body's prompts it answers."""

    prompt: int
    delta: Delta


Parts = Mapping[tuple[int, int], Delta]  # by prompt and choice


class Streams:
    """The open streams of one body, one for each prompt. Whoever holds them closes them."""

    def __init__(self, sources: Sequence[DeltaSource]) -> None:
        self._sources = tuple(sources)
        self._table = _Table(len(sources))

    @property
    def sources(self) -> tuple[DeltaSource, ...]:
        """One for each prompt."""
        return self._sources

    def close(self) -> None:
        """Abort what has not ended. Safe twice."""
        for source in self._sources:
            source.close()

    def park(self) -> None:
        """The client has left and may come back."""
        for source in self._sources:
            source.park()

    def unpark(self) -> None:
        """The client has come back."""
        for source in self._sources:
            source.unpark()

    @asynccontextmanager
    async def reading(self) -> AsyncIterator[AsyncIterator[Arrival]]:
        """What arrives for any prompt, in the order of arriving. Who leaves and reads again has missed nothing.

        Raises an ApiError where a choice ended in any other way than by itself.
        """
        if len(self._sources) == 1:
            yield _Arrivals(self._sources[0])
            return
        async with task_group() as group:
            for number, source in enumerate(self._sources):
                group.start_soon(self._table.lay, number, source)
            yield _Taken(self._table)
            group.cancel_scope.cancel()


class _Arrivals(AsyncIterator[Arrival]):
    """The deltas of one prompt alone."""

    def __init__(self, source: DeltaSource) -> None:
        self._deltas = aiter(source)

    async def __anext__(self) -> Arrival:
        delta = await anext(self._deltas)
        _check(delta.end)
        return Arrival(0, delta)


class _Table:
    """Where all prompts' deltas are laid, at most one of each: whoever reads slowly is felt by all."""

    def __init__(self, num_prompts: int) -> None:
        self._arrivals: deque[Arrival] = deque()
        self._free = [asyncio.Event() for _ in range(num_prompts)]
        self._changed = asyncio.Event()
        self._unended = set(range(num_prompts))
        for event in self._free:
            event.set()

    async def lay(self, number: int, source: DeltaSource) -> None:
        """Bring one prompt's deltas, each once the one before is taken. Cancelled, it has lost none."""
        free, deltas = self._free[number], aiter(source)
        while True:
            await free.wait()
            try:
                delta = await anext(deltas)
            except StopAsyncIteration:
                break
            self._arrivals.append(Arrival(number, delta))
            free.clear()
            self._changed.set()
        self._unended.discard(number)
        self._changed.set()

    async def take(self) -> Arrival | None:
        """The next arrival, or None after the last of all prompts."""
        while not self._arrivals:
            if not self._unended:
                return None
            self._changed.clear()
            await self._changed.wait()
        arrival = self._arrivals.popleft()
        self._free[arrival.prompt].set()
        return arrival


class _Taken(AsyncIterator[Arrival]):
    """What is taken from the table."""

    def __init__(self, table: _Table) -> None:
        self._table = table

    async def __anext__(self) -> Arrival:
        arrival = await self._table.take()
        if arrival is None:
            raise StopAsyncIteration
        _check(arrival.delta.end)
        return arrival


def _check(end: End | None) -> None:
    """Raise what ended a choice, unless it ended by itself."""
    if end is not None and end.reason in (FinishReason.ERROR, FinishReason.ABORT):
        raise from_engine(end.error or EngineStopped())


def open_streams(engine: EngineDoor, requests: Sequence[Request], *, param: str) -> Streams:
    """Queue all requests of a body, or none. `param` is the field that held the prompts."""
    sources: list[DeltaSource] = []
    with blaming(param):
        try:
            for request in requests:
                sources.append(engine.open(request))  # noqa: PERF401  # what is open already is closed on a refusal
        except Exception:
            Streams(sources).close()
            raise
    return Streams(sources)


async def gather(streams: Streams, account: Account) -> Parts:
    """Read everything; each choice's deltas become one. Leaving early aborts what still runs."""
    parts: dict[tuple[int, int], list[Delta]] = {}
    try:
        async with streams.reading() as arrivals:
            async for arrival in arrivals:
                account.count(arrival.delta)
                parts.setdefault((arrival.prompt, arrival.delta.choice), []).append(arrival.delta)
    finally:
        streams.close()
    return {key: join(parts[key]) for key in sorted(parts)}


def join(deltas: Sequence[Delta]) -> Delta:
    """All deltas of a choice as one."""
    return Delta(
        choice=deltas[0].choice,
        text="".join(delta.text for delta in deltas),
        tokens=tuple(token for delta in deltas for token in delta.tokens),
        prompt_logprobs=next((d.prompt_logprobs for d in deltas if d.prompt_logprobs is not None), None),
        end=deltas[-1].end,
        embedding=deltas[-1].embedding,
    )
