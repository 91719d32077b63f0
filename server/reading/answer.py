"""Answers: reasoning, then text, with calls of tools in it or behind it."""

from collections.abc import Callable
from dataclasses import dataclass

from server.reading.calls import CallFormat, Calls
from server.reading.tape import Malformed, Steps, Tape, TapeReader


@dataclass(frozen=True, slots=True)
class Thinking:
    """The tags around a model's reasoning, which comes before its answer. `begun`: the prompt ends with the first."""

    opens: str
    closes: str
    begun: bool = False


@dataclass(frozen=True, slots=True)
class AnswerReader:
    """Makes the readers of an answer's choices: what its model's marks are, and what it may call.

    `thinking` None: no reasoning is looked for. `format` None: nor are calls.
    """

    thinking: Thinking | None = None
    format: CallFormat | None = None
    make_calls: Callable[[], Calls] = lambda: Calls({})

    @property
    def marks(self) -> tuple[str, ...]:
        """All that it looks for, in whatever place."""
        thinking, format = self.thinking, self.format
        tags = () if thinking is None else (thinking.opens, thinking.closes)
        return tags if format is None else (*tags, *format.marks, *format.inner)

    def __call__(self) -> TapeReader:
        """A new choice's reader."""
        return TapeReader(self._story)

    def _story(self, tape: Tape) -> Steps[None]:
        if self.thinking is not None:
            yield from _read_thinking(tape, self.thinking)
        if self.format is None:
            yield from _read_plain(tape)
        else:
            yield from _read_answer(tape, self.format, self.make_calls())


def _read_thinking(tape: Tape, thinking: Thinking) -> Steps[None]:
    """Reasoning, if the answer begins with it. White space next to a tag belongs to the tag."""
    yield from tape.space()
    if (yield from tape.skip(thinking.opens)) is None and not thinking.begun:
        tape.back()
        return
    yield from tape.space()
    tape.settle()
    place = yield from tape.find((thinking.closes,), tape.say_reasoning)
    if place is None:
        tape.say_reasoning(tape.at + len(tape.rest))
        return
    tape.at = place + len(thinking.closes)
    yield from tape.space()
    tape.settle()


def _read_plain(tape: Tape) -> Steps[None]:
    while (yield from tape.next()):
        tape.say_text(tape.at + len(tape.rest))


def _read_answer(tape: Tape, format: CallFormat, calls: Calls) -> Steps[None]:
    """Text and calls. White space between a text and a call behind it, and at an end behind calls, is the marks'.

    So is what begins like a mark at such an end, which cut it. Behind the last call that may be made nothing is said
    any more.
    """
    place = yield from _opening(tape, format)
    while not calls.full:
        if place is None:
            place = yield from tape.find(format.marks, tape.say_text)
        if place is None:
            break
        yield from _read_calls(tape, format, calls, place)
        place = None
    if not calls.any:
        tape.say_text(tape.at + len(tape.rest))
    while (yield from tape.next()):
        tape.at += len(tape.rest)
        tape.settle()


def _opening(tape: Tape, format: CallFormat) -> Steps[int | None]:
    """Where calls begin that stand at the answer's own beginning."""
    yield from tape.space()
    place = tape.at
    opens = False
    for literal in format.openings:
        opens = opens or (yield from tape.begins(literal))
    tape.back()
    return place if opens else None


def _read_calls(tape: Tape, format: CallFormat, calls: Calls, place: int) -> Steps[None]:
    """Calls from their mark on. What is none becomes text, the mark's first character at least: marks may overlap.

    One that the answer's end cuts, behind calls that were made, is no text.
    """
    tape.at = place
    try:
        yield from format.read(tape, calls)
    except Malformed:
        if calls.any and tape.ended and not tape.rest:
            tape.settle()
            return
        tape.back()
        if tape.at <= place:
            tape.say_text(place + 1)
