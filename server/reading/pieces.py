"""Pieces: what a choice's text is made of, once the marks that models write between its parts are read."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Text:
    """A part of the answer itself. `start` is where it stands in all that the choice wrote, in characters."""

    text: str
    start: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class Reasoning:
    """A part of what the model thought before it answered. `start` is where it stands in all that the choice wrote."""

    text: str
    start: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class CallBegun:
    """A call of a tool begins. Calls of a choice are numbered from 0; `id` is the call's own."""

    number: int
    id: str
    name: str


@dataclass(frozen=True, slots=True)
class CallArguments:
    """A part of a call's arguments, which together are the text of a JSON object, as far as the model wrote one."""

    number: int
    text: str


Piece = Text | Reasoning | CallBegun | CallArguments


def joined(pieces: Iterable[Piece]) -> list[Piece]:
    """The same pieces, those of one kind that follow each other as one."""
    whole: list[Piece] = []
    for piece in pieces:
        match whole[-1] if whole else None, piece:
            case Text(before, start), Text(text):
                whole[-1] = Text(before + text, start)
            case Reasoning(before, start), Reasoning(text):
                whole[-1] = Reasoning(before + text, start)
            case CallArguments(number, before), CallArguments(same, text) if number == same:
                whole[-1] = CallArguments(number, before + text)
            case _:
                whole.append(piece)
    return whole


class Reader(Protocol):
    """Reads one choice's text as it arrives, in whatever parts it arrives.

    All pieces together hold all of the text but the marks between them: what turns out to be no mark becomes text.
    They are the same, once adjacent ones are joined, however the text is cut into parts.
    """

    def feed(self, text: str) -> tuple[Piece, ...]:
        """What is certain once this text has come as well."""
        ...

    def finish(self) -> tuple[Piece, ...]:
        """What was held back until the end."""
        ...


class PlainReader:
    """Reads a text that has no marks."""

    def __init__(self) -> None:
        self._length = 0

    def feed(self, text: str) -> tuple[Piece, ...]:
        """All of it, as text."""
        start = self._length
        self._length += len(text)
        return (Text(text, start),) if text else ()

    def finish(self) -> tuple[Piece, ...]:
        """Nothing: nothing is held back."""
        return ()
