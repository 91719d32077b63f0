"""Texts as models write them, read in whatever parts they come."""

from collections.abc import Iterable
from itertools import count

from server.reading.answer import AnswerReader, Thinking
from server.reading.calls import Calls
from server.reading.formats import FORMATS
from server.reading.pieces import CallArguments, CallBegun, Piece, Reader, Reasoning, Text

TAGS = Thinking("<think>", "</think>")
NAMES = ("look", "get_weather")


def reader_of(format: str | None, *, thinking: Thinking | None = None, most: int | None = None) -> Reader:
    """A reader whose calls' ids are call0, call1, …"""

    def calls() -> Calls:
        numbers = count()
        return Calls(NAMES, most=most, new_id=lambda: f"call{next(numbers)}")

    return AnswerReader(thinking, None if format is None else FORMATS[format], calls)()


def read(reader: Reader, parts: Iterable[str]) -> list[Piece]:
    """Everything read, adjacent pieces of one kind joined."""
    pieces = [piece for part in parts for piece in reader.feed(part)]
    return joined([*pieces, *reader.finish()])


def joined(pieces: Iterable[Piece]) -> list[Piece]:
    """Adjacent pieces of one kind as one."""
    whole: list[Piece] = []
    for piece in pieces:
        last = whole[-1] if whole else None
        match last, piece:
            case Text(before, start), Text(text):
                whole[-1] = Text(before + text, start)
            case Reasoning(before, start), Reasoning(text):
                whole[-1] = Reasoning(before + text, start)
            case CallArguments(number, before), CallArguments(same, text) if number == same:
                whole[-1] = CallArguments(number, before + text)
            case _:
                whole.append(piece)
    return whole


def call(number: int, name: str, arguments: str) -> list[Piece]:
    """A call's pieces."""
    return [CallBegun(number, f"call{number}", name), CallArguments(number, arguments)]
