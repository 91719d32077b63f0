"""Streams: the answers to all prompts of one body, opened together and read as one."""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass

from anyio import BrokenResourceError, create_memory_object_stream
from anyio.streams.memory import MemoryObjectSendStream

from engine.errors import EngineStopped
from engine.request import Delta, End, FinishReason, Request
from server.account import Account
from server.errors import blaming, from_engine
from server.service import DeltaSource, EngineDoor
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

    def close(self) -> None:
        """Abort what has not ended. Safe twice."""
        for source in self._sources:
            source.close()

    @asynccontextmanager
    async def reading(self) -> AsyncIterator[AsyncIterator[Arrival]]:
        """What arrives for any prompt, in the order of arriving. Leaving aborts what still runs.

        Raises an ApiError where a choice ended in any other way than by itself.
        """
        try:
            if len(self._sources) == 1:
                yield _Arrivals(0, self._sources[0])
            else:
                async with _merged(self._sources) as arrivals:
                    yield arrivals
        finally:
            self.close()


class _Arrivals(AsyncIterator[Arrival]):
    """The deltas of one prompt."""

    def __init__(self, prompt: int, source: DeltaSource) -> None:
        self._prompt = prompt
        self._deltas = aiter(source)

    async def __anext__(self) -> Arrival:
        delta = await anext(self._deltas)
        _check(delta.end)
        return Arrival(self._prompt, delta)


def _check(end: End | None) -> None:
    """Raise what ended a choice, unless it ended by itself."""
    if end is not None and end.reason in (FinishReason.ERROR, FinishReason.ABORT):
        raise from_engine(end.error or EngineStopped())


@asynccontextmanager
async def _merged(sources: Sequence[DeltaSource]) -> AsyncIterator[AsyncIterator[Arrival]]:
    """All prompts' deltas through one channel, which holds none: whoever reads slowly is felt by all."""
    async with task_group() as group:
        sender, receiver = create_memory_object_stream[Arrival]()
        with sender, receiver:
            for number, source in enumerate(sources):
                group.start_soon(_forward, _Arrivals(number, source), sender.clone())
            sender.close()
            yield receiver
            group.cancel_scope.cancel()


async def _forward(arrivals: AsyncIterator[Arrival], sender: MemoryObjectSendStream[Arrival]) -> None:
    with sender, suppress(BrokenResourceError):  # nobody reads any more
        async for arrival in arrivals:
            await sender.send(arrival)


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
    """Read everything; each choice's deltas become one."""
    parts: dict[tuple[int, int], list[Delta]] = {}
    async with streams.reading() as arrivals:
        async for arrival in arrivals:
            account.count(arrival.delta)
            parts.setdefault((arrival.prompt, arrival.delta.choice), []).append(arrival.delta)
    return {key: join(parts[key]) for key in sorted(parts)}


def join(deltas: Sequence[Delta]) -> Delta:
    """All deltas of a choice as one."""
    return Delta(
        choice=deltas[0].choice,
        text="".join(delta.text for delta in deltas),
        tokens=tuple(token for delta in deltas for token in delta.tokens),
        prompt_logprobs=next((d.prompt_logprobs for d in deltas if d.prompt_logprobs is not None), None),
        end=deltas[-1].end,
    )
