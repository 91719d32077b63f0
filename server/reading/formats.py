"""Formats: the ways in which models write calls of tools. Each is one small class, with no state."""

from dataclasses import dataclass

import orjson

from server.reading.calls import CallFormat, Calls, Frame, read_arguments, read_call_object
from server.reading.channels import Harmony
from server.reading.python_call import read_python_call
from server.reading.tagged_call import read_tagged_call
from server.reading.tape import Malformed, Steps, Tape


class Hermes:
    """`<tool_call>{"name": …, "arguments": {…}}</tool_call>`, one pair of tags for each call.

    Some models write `<function=name><parameter=key>value</parameter></function>` between them.
    """

    marks: tuple[str, ...] = ("<tool_call>",)
    openings: tuple[str, ...] = ()
    inner: tuple[str, ...] = ("</tool_call>",)
    frame: Frame = ("", "\n", "")
    around: Frame = ('<tool_call>\n{"name": ', ', "arguments": ', "}\n</tool_call>")

    def name(self, name: str) -> str:
        """See `CallFormat`."""
        return _quoted(name)

    def read(self, tape: Tape, calls: Calls) -> Steps[None]:
        """See `CallFormat`."""
        yield from tape.expect(*self.marks)
        yield from tape.space()
        tagged = (yield from tape.next()) == "<"
        yield from read_tagged_call(tape, calls) if tagged else read_call_object(tape, calls)
        yield from tape.close(*self.inner)


class Llama:
    """`{"name": …, "parameters": {…}}` as the whole answer, or behind `<|python_tag|>`; several behind `;`."""

    marks: tuple[str, ...] = ("<|python_tag|>",)
    openings: tuple[str, ...] = ("{",)
    inner: tuple[str, ...] = ()
    frame: Frame = ("", "; ", "")
    around: Frame = ('{"name": ', ', "parameters": ', "}")

    def name(self, name: str) -> str:
        """See `CallFormat`."""
        return _quoted(name)

    def read(self, tape: Tape, calls: Calls) -> Steps[None]:
        """See `CallFormat`."""
        yield from tape.skip(*self.marks)
        while True:
            yield from tape.space()
            yield from read_call_object(tape, calls)
            yield from tape.space()
            yield from tape.skip(";", ",")


class Pythonic:
    """`[name(key="value"), …]` as the whole answer, or between marks. A call is said once it is whole.

    Calls that are spelled here hand all their arguments over as one object, which is JSON and Python alike.
    """

    marks: tuple[str, ...] = ("<|python_start|>", "<|tool_call_start|>")
    openings: tuple[str, ...] = ("[",)
    inner: tuple[str, ...] = ("<|python_end|>", "<|tool_call_end|>")
    frame: Frame = ("[", ", ", "]")
    around: Frame = ("", "(**", ")")

    def name(self, name: str) -> str:
        """See `CallFormat`."""
        return name

    def read(self, tape: Tape, calls: Calls) -> Steps[None]:
        """See `CallFormat`."""
        yield from tape.skip(*self.marks)
        yield from tape.space()
        yield from tape.expect("[")
        while True:
            yield from tape.space()
            yield from read_python_call(tape, calls)
            yield from tape.space()
            if (yield from tape.expect(",", "]")) == "]":
                break
        yield from tape.close(*self.inner)


@dataclass(frozen=True, slots=True)
class Mistral:
    """`[TOOL_CALLS]` before a list of `{"name": …, "arguments": {…}}`, or before each `name[ARGS]{…}`.

    Either is read; `named` ones are spelled in the second way.
    """

    named: bool = False
    marks: tuple[str, ...] = ("[TOOL_CALLS]",)
    openings: tuple[str, ...] = ()
    inner: tuple[str, ...] = ("[ARGS]", "[CALL_ID]")

    @property
    def frame(self) -> Frame:
        """See `CallFormat`."""
        return ("", "", "") if self.named else ("[TOOL_CALLS][", ", ", "]")

    @property
    def around(self) -> Frame:
        """See `CallFormat`."""
        return ("[TOOL_CALLS]", "[ARGS]", "") if self.named else ('{"name": ', ', "arguments": ', "}")

    def name(self, name: str) -> str:
        """See `CallFormat`."""
        return name if self.named else _quoted(name)

    def read(self, tape: Tape, calls: Calls) -> Steps[None]:
        """See `CallFormat`."""
        yield from tape.expect(*self.marks)
        yield from tape.space()
        if (yield from tape.next()) == "[":
            yield from self._read_list(tape, calls)
        else:
            yield from self._read_named(tape, calls)

    def _read_list(self, tape: Tape, calls: Calls) -> Steps[None]:
        yield from tape.expect("[")
        while True:
            yield from tape.space()
            yield from read_call_object(tape, calls)
            yield from tape.space()
            if (yield from tape.expect(",", "]")) == "]":
                break
        tape.settle()

    def _read_named(self, tape: Tape, calls: Calls) -> Steps[None]:
        name = ""
        while (found := (yield from tape.skip("[CALL_ID]", "[ARGS]"))) is None:
            character = yield from tape.next()
            if character == "{":
                break
            if tape.cut("[CALL_ID]", "[ARGS]") or len(name) >= calls.longest_name:
                raise Malformed
            name += character
            tape.at += 1
        if found == "[CALL_ID]":
            yield from self._skip_id(tape)
        yield from tape.space()
        yield from read_arguments(tape, calls, name.strip())

    def _skip_id(self, tape: Tape) -> Steps[None]:
        """The model's own id of the call, which is as good as another."""
        while (yield from tape.skip("[ARGS]")) is None:
            character = yield from tape.next()
            if tape.cut("[ARGS]") or not character.isalnum():
                raise Malformed
            tape.at += 1


def _quoted(name: str) -> str:
    return orjson.dumps(name).decode()


DEFAULT: CallFormat = Hermes()  # of models whose chat template tells of none
FORMATS: dict[str, CallFormat] = {
    "hermes": DEFAULT,
    "llama": Llama(),
    "pythonic": Pythonic(),
    "mistral": Mistral(),
    "harmony": Harmony(),
}
