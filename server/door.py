"""The engine as the server uses it: what it opens, what can be seen of it, and what makes it."""

from collections.abc import AsyncIterator, Callable
from typing import Protocol

from engine.course import Course, Moment
from engine.look import Look, UnitView
from engine.request import Delta, Grammar, Request
from engine.stats import ModelInfo, Snapshot, StepRecord
from engine.text import Tokenizer, Vocabulary


class DeltaSource(Protocol):
    """The engine's DeltaStream, as the server uses it: read it to the end, or close it."""

    def __aiter__(self) -> AsyncIterator[Delta]:
        """The deltas of all choices."""
        ...

    @property
    def courses(self) -> tuple[Course, ...]:
        """What has befallen each choice so far."""
        ...

    def close(self) -> None:
        """Abort what has not ended."""
        ...

    def park(self) -> None:
        """Keep what has not ended, and compute nothing of it, until its client comes back."""
        ...

    def unpark(self) -> None:
        """Go on where it stood."""
        ...


class EngineDoor(Protocol):
    """The engine, as the server uses it."""

    info: ModelInfo
    vocabulary: Vocabulary

    @property
    def accepting(self) -> bool:
        """Whether new requests are taken."""
        ...

    @property
    def stalled(self) -> bool:
        """Whether a step takes too long."""
        ...

    async def prepare(self, grammar: Grammar) -> None:
        """Make a grammar ready for requests, or raise the RequestRefused that says why not."""
        ...

    def examine(self, request: Request) -> None:
        """Raise the RequestRefused of a request that can never run; queue nothing."""
        ...

    def open(self, request: Request) -> DeltaSource:
        """Queue a request, or raise the RequestRefused that says why not."""
        ...

    def snapshot(self) -> Snapshot:
        """Everything that can be seen, now."""
        ...

    def look(self) -> Look:
        """The same for who looks again and again."""
        ...

    def unit(self, unit: int) -> UnitView | None:
        """What a unit of the pool holds now; None where it is free."""
        ...

    def slot(self, slot: int) -> UnitView | None:
        """What a slot of recurrent states holds now; None where it is free."""
        ...

    def courses(self) -> dict[str, Course]:
        """What has befallen each unfinished sequence so far."""
        ...

    def observe(
        self,
        note: Callable[[StepRecord], None],
        *,
        with_tables: bool = True,
        hear: Callable[[str, Moment], None] | None = None,
    ) -> Callable[[], None]:
        """Have every step noted, and what befalls sequences heard, until what is returned is called."""
        ...


class Built(Protocol):
    """A loaded model."""

    @property
    def engine(self) -> EngineDoor:
        """What runs it."""
        ...

    @property
    def tokenizer(self) -> Tokenizer:
        """What reads and writes its text."""
        ...
