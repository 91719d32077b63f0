"""Publish: hand what a commit released to the streams, and raise `published` to match."""

from collections.abc import Iterable
from dataclasses import dataclass

from engine.errors import EngineError
from engine.ledger import Published
from engine.request import Delta, End, FinishReason
from engine.sequence import Sequence
from engine.step import Advance
from engine.stream import DeltaStream


@dataclass(frozen=True, slots=True)
class _Outlet:
    sequence: Sequence
    stream: DeltaStream


class Publisher:
    """Knows each unfinished sequence's stream. A stream whose client has left gets nothing more."""

    def __init__(self) -> None:
        self._outlets: dict[str, _Outlet] = {}

    def connect(self, sequences: Iterable[Sequence], stream: DeltaStream) -> None:
        """Send what these sequences publish to `stream`, until each has ended."""
        for sequence in sequences:
            self._outlets[sequence.id] = _Outlet(sequence, stream)

    def publish(self, advances: Iterable[Advance]) -> None:
        """Put every delta into its stream, in order; never waits."""
        for advance in advances:
            if advance.delta is None:
                continue
            outlet = self._outlets[advance.sequence]
            if not outlet.stream.closed:
                outlet.sequence.ledger.publish(Published(advance.publish_upto))
                outlet.stream.put(advance.delta)
            if advance.delta.end is not None:
                del self._outlets[advance.sequence]

    def end_all(self, error: EngineError) -> None:
        """End what is still connected, without a look at what it has accepted."""
        for outlet in self._outlets.values():
            if not outlet.stream.closed:
                end = End(FinishReason.ERROR, outlet.sequence.usage, error=error)
                outlet.stream.put(Delta(outlet.sequence.choice, end=end))
        self._outlets.clear()
