"""Pieces: what a choice's text is made of, once the marks that models write between its parts are read."""

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Text:
    """A part of the answer itself."""

    text: str


@dataclass(frozen=True, slots=True)
class Reasoning:
    """A part of what the model thought before it answered."""

    text: str


@dataclass(frozen=True, slots=True)
class CallBegun:
    """A call of a tool begins. Calls of a choice are numbered from 0; `id` is the call's own."""

    number: int
    id: str
    name: str


@dataclass(frozen=True, slots=True)
class CallArguments:
    """A part of a call's arguments, which together are the text of a JSON object."""

    number: int
    text: str


Piece = Text | Reasoning | CallBegun | CallArguments


class Reader(Protocol):
    """Reads one choice's text as it arrives, in whatever parts it arrives.

    All pieces together hold all of the text but the marks between them: what turns out to be no mark becomes text.
    """

    def feed(self, text: str) -> tuple[Piece, ...]:
        """What is certain once this text has come as well."""
        ...

    def finish(self) -> tuple[Piece, ...]:
        """What was held back until the end."""
        ...


class PlainReader:
    """Reads a text that has no marks."""

    def feed(self, text: str) -> tuple[Piece, ...]:
        """All of it, as text."""
        return (Text(text),) if text else ()

    def finish(self) -> tuple[Piece, ...]:
        """Nothing: nothing is held back."""
        return ()
