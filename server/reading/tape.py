"""Tape: the text of one choice as it comes, and readers that are written as if all of it were there.

A story is a generator: it reads from the tape, says pieces, and yields wherever what it asks for has not come yet.
So it decides by the text alone and never by how that was cut into parts.
"""

from collections.abc import Callable, Generator
from typing import TypeVar

from server.reading.pieces import Piece, Reasoning, Text

T = TypeVar("T")
Steps = Generator[None, None, T]  # yields where more text is needed


class Malformed(Exception):
    """What began like a mark is none."""


class Tape:
    """Text that has come. Positions count characters from the choice's first.

    What lies before `at` was read. A reader that fails goes back to where the tape was last settled.
    """

    def __init__(self) -> None:
        self._text = ""
        self._start = 0  # the position of its first character
        self._settled = 0
        self._pieces: list[Piece] = []
        self.at = 0
        self.ended = False

    # -- by the reader ----------------------------------------------------------------------------

    def add(self, text: str) -> None:
        """More text has come. What is settled is forgotten."""
        self._text = self._text[self._settled - self._start :] + text
        self._start = self._settled

    def take(self) -> tuple[Piece, ...]:
        """What has been said since this was last asked."""
        pieces, self._pieces = tuple(self._pieces), []
        return pieces

    # -- by stories -------------------------------------------------------------------------------

    @property
    def rest(self) -> str:
        """What has come and is not read."""
        return self._text[self.at - self._start :]

    @property
    def _left(self) -> int:
        """How many characters have come and are not read."""
        return self._start + len(self._text) - self.at

    def say(self, piece: Piece) -> None:
        """Let a piece be known. It can't be taken back, so what was read is settled."""
        self._pieces.append(piece)
        self.settle()

    def say_text(self, stop: int) -> None:
        """Read up to a position, as the answer's text."""
        if text := self._read_to(stop):
            self.say(Text(text, stop - len(text)))

    def say_reasoning(self, stop: int) -> None:
        """Read up to a position, as reasoning."""
        if text := self._read_to(stop):
            self.say(Reasoning(text, stop - len(text)))

    def settle(self) -> None:
        """Nothing goes back behind this position any more."""
        self._settled = self.at

    def back(self) -> None:
        """Read again from where the tape was last settled."""
        self.at = self._settled

    def next(self) -> Steps[str]:
        """The next character, which is not read; "" at the end."""
        while self._left < 1 and not self.ended:
            yield
        index = self.at - self._start
        return self._text[index : index + 1]

    def space(self) -> Steps[None]:
        """Read white space."""
        while (yield from self.next()).isspace():
            self.at += 1

    def begins(self, literal: str) -> Steps[bool]:
        """Whether a literal comes next. It is not read."""
        while self._left < len(literal) and literal.startswith(self.rest) and not self.ended:
            yield
        return self._text.startswith(literal, self.at - self._start)

    def skip(self, *literals: str) -> Steps[str | None]:
        """Read the first of these literals that comes next, if one does: which it was."""
        for literal in literals:
            if (yield from self.begins(literal)):
                self.at += len(literal)
                return literal
        return None

    def expect(self, *literals: str) -> Steps[str]:
        """Read one of these literals, or raise Malformed."""
        found = yield from self.skip(*literals)
        if found is None:
            self.cut(*literals)
            raise Malformed
        return found

    def cut(self, *literals: str) -> bool:
        """Whether the end cut one of these literals, or came before it. What there is of it is read."""
        if not self.ended or not any(literal.startswith(self.rest) for literal in literals):
            return False
        self.at += self._left
        return True

    def until(self, literal: str, longest: int) -> Steps[str]:
        """Read up to a literal, and the literal: what comes before it. Raises Malformed where that is too long."""
        while (place := self._text.find(literal, self.at - self._start)) < 0:
            if self._left > longest + len(literal):
                raise Malformed
            if self.ended:
                self.at += self._left
                raise Malformed
            yield
        text = self._text[self.at - self._start : place]
        if len(text) > longest:
            raise Malformed
        self.at += len(text) + len(literal)
        return text

    def close(self, *literals: str) -> Steps[None]:
        """Read a closing mark and the white space before it, as much of it as comes; else nothing.

        All until here is settled.
        """
        self.settle()
        yield from self.space()
        if (yield from self.skip(*literals)) is None and not self.cut(*literals):
            self.back()
        self.settle()

    def find(self, literals: tuple[str, ...], say: Callable[[int], None]) -> Steps[int | None]:
        """The position of the first literal that comes, or None at the end; what comes before it is said.

        White space before the literal is neither said nor read, nor is at the end what may begin one.
        """
        while True:
            rest = self.rest
            found = [place for place in (rest.find(literal) for literal in literals) if place >= 0]
            sure = min(found) if found else len(rest) - _begun(rest, literals)
            place = self.at + sure
            say(self.at + len(rest[:sure].rstrip()))
            if found:
                return place
            if self.ended:
                return None
            yield

    def _read_to(self, stop: int) -> str:
        text = self._text[self.at - self._start : stop - self._start]
        self.at = stop
        return text


def _begun(text: str, literals: tuple[str, ...]) -> int:
    """How many characters at the text's end one of the literals may begin with."""
    longest = min(len(text), max(map(len, literals), default=1) - 1)
    ends = (text[-count:] for count in range(longest, 0, -1))
    return next((len(end) for end in ends if any(literal.startswith(end) for literal in literals)), 0)


class TapeReader:
    """Implements `pieces.Reader` by a story."""

    def __init__(self, story: Callable[[Tape], Steps[None]]) -> None:
        self._tape = Tape()
        self._steps = story(self._tape)

    def feed(self, text: str) -> tuple[Piece, ...]:
        """See `pieces.Reader`."""
        self._tape.add(text)
        return self._go_on()

    def finish(self) -> tuple[Piece, ...]:
        """See `pieces.Reader`."""
        self._tape.ended = True
        return self._go_on()

    def _go_on(self) -> tuple[Piece, ...]:
        next(self._steps, None)
        return self._tape.take()
