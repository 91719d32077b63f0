"""Readings: the readers of all choices of an answer, and what each has read."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from engine.request import Delta
from server.reading.pieces import CallArguments, CallBegun, Piece, PlainReader, Reader, Reasoning, Text
from server.reading.places import Places

MakeReader = Callable[[], Reader]


@dataclass(slots=True)
class Said:
    """What a choice has said. `calls` are its calls of tools, by number, as they began, with their arguments' parts.

    `places.content` has the tokens of `text`, so the ones whose log-probabilities are listed, and
    `places.num_reasoning` says how many are those of `reasoning`.
    """

    text: list[str] = field(default_factory=list)
    reasoning: list[str] = field(default_factory=list)
    calls: dict[int, tuple[CallBegun, list[str]]] = field(default_factory=dict)
    places: Places = field(default_factory=Places)

    def take(self, pieces: Iterable[Piece]) -> None:
        """Add pieces, in their order."""
        for piece in pieces:
            match piece:
                case Text(text):
                    self.text.append(text)
                case Reasoning(text):
                    self.reasoning.append(text)
                case CallBegun(number):
                    self.calls[number] = (piece, [])
                case CallArguments(number, text):
                    self.calls[number][1].append(text)


class Readings:
    """Reads deltas of all choices of one prompt. `said` is what each choice has said so far."""

    def __init__(self, make_reader: MakeReader = PlainReader) -> None:
        self._make_reader = make_reader
        self._readers: dict[int, Reader] = {}
        self.said: dict[int, Said] = {}

    def read(self, delta: Delta) -> tuple[Piece, ...]:
        """The pieces that a delta makes certain; with its end, all that were held back."""
        reader = self._readers.get(delta.choice)
        if reader is None:
            reader = self._readers[delta.choice] = self._make_reader()
            self.said[delta.choice] = Said()
        pieces = reader.feed(delta.text) if delta.text else ()
        if delta.end is not None:
            pieces += reader.finish()
        said = self.said[delta.choice]
        said.take(pieces)
        said.places.take(delta, pieces)
        return pieces

    @property
    def num_reasoning(self) -> int:
        """How many tokens of all choices were reasoning."""
        return sum(said.places.num_reasoning for said in self.said.values())
