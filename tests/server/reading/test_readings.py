from engine.request import Delta, End, FinishReason, Usage
from server.reading.pieces import CallArguments, CallBegun, Piece, Reasoning, Text
from server.reading.readings import Readings

END = End(FinishReason.STOP, Usage(1, 0, 1))


class Echo:
    """Holds back each part until the next one comes."""

    def __init__(self) -> None:
        self._held = ""

    def feed(self, text: str) -> tuple[Piece, ...]:
        held, self._held = self._held, text
        return (Text(held),) if held else ()

    def finish(self) -> tuple[Piece, ...]:
        return (Text(self._held),)


class Caller:
    """Thinks and calls, whatever the model says."""

    def feed(self, text: str) -> tuple[Piece, ...]:
        return (Reasoning(text), CallBegun(0, "call", "look"), CallArguments(0, "{"), CallArguments(0, "}"))

    def finish(self) -> tuple[Piece, ...]:
        return ()


def test_a_plain_text_is_read_as_it_comes() -> None:
    readings = Readings()

    pieces = readings.read(Delta(0, "a")) + readings.read(Delta(0)) + readings.read(Delta(0, "b", end=END))

    assert pieces == (Text("a"), Text("b"))


def test_the_end_gives_what_was_held_back() -> None:
    readings = Readings(Echo)

    assert readings.read(Delta(0, "a")) == ()
    assert readings.read(Delta(0, "b", end=END)) == (Text("a"), Text("b"))


def test_each_choice_has_a_reader_of_its_own() -> None:
    readings = Readings(Echo)

    readings.read(Delta(0, "a"))
    readings.read(Delta(1, "b"))

    assert readings.read(Delta(0, "", end=END)) == (Text("a"),)
    assert readings.read(Delta(1, "", end=END)) == (Text("b"),)
    assert readings.said[1].text == ["b"]


def test_what_was_said_is_kept_apart() -> None:
    readings = Readings(Caller)

    readings.read(Delta(0, "hm", end=END))

    said = readings.said[0]
    assert said.reasoning == ["hm"]
    assert said.text == []
    assert said.calls == {0: (CallBegun(0, "call", "look"), ["{", "}"])}
