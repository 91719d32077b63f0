"""Texts as models write them, read in whatever parts they come."""

from collections.abc import Iterable
from itertools import count

from server.reading.answer import AnswerReader, Thinking
from server.reading.calls import Calls
from server.reading.formats import FORMATS
from server.reading.pieces import CallArguments, CallBegun, Piece, Reader, joined

TAGS = Thinking("<think>", "</think>")
SCHEMAS: dict[str, dict[str, object]] = {
    "look": {"properties": {"at": {"type": "string"}, "n": {"type": "integer"}, "odd": True}},
    "get_weather": {},
}


def reader_of(format: str | None, *, thinking: Thinking | None = None, most: int | None = None) -> Reader:
    """A reader whose calls' ids are call0, call1, …"""

    def calls() -> Calls:
        numbers = count()
        return Calls(SCHEMAS, most=most, new_id=lambda: f"call{next(numbers)}")

    return AnswerReader(thinking, None if format is None else FORMATS[format], calls)()


def read(reader: Reader, parts: Iterable[str]) -> list[Piece]:
    """Everything read, adjacent pieces of one kind joined."""
    pieces = [piece for part in parts for piece in reader.feed(part)]
    return joined([*pieces, *reader.finish()])


def call(number: int, name: str, arguments: str) -> list[Piece]:
    """A call's pieces."""
    return [CallBegun(number, f"call{number}", name), CallArguments(number, arguments)]
