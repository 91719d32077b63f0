"""Calls: what all formats of tool calls have in common, and calls that are JSON objects."""

import secrets
import string
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

import orjson

from server.reading.pieces import CallArguments, CallBegun
from server.reading.scan import Scan
from server.reading.tape import Malformed, Steps, Tape

ID_CHARACTERS = string.ascii_letters + string.digits
ID_LENGTH = 9  # what templates of mistral's insist on; 53 random bits
MAX_KEY = 32  # characters of a key beside the arguments
MAX_HELD = 1 << 16  # characters of arguments that come before the name, or are text within text
MAX_ESCAPED = 12  # characters that may spell one, in two escapes
ARGUMENTS = ("arguments", "parameters")
ASIDE = ("type", "id")  # keys that models add


def new_call_id() -> str:
    """An id that nobody can guess."""
    return "".join(secrets.choice(ID_CHARACTERS) for _ in range(ID_LENGTH))


class Calls:
    """The calls of one choice. Only these tools can be called, and at most `most` times.

    `schemas` has the JSON schema of each tool's arguments, by name.
    """

    def __init__(
        self,
        schemas: Mapping[str, Mapping[str, object]],
        *,
        most: int | None = None,
        new_id: Callable[[], str] = new_call_id,
    ) -> None:
        self._schemas = schemas
        names = self.names = schemas.keys()
        self.longest_name = max(map(len, names), default=0)
        self._most = most
        self._new_id = new_id
        self._count = 0

    @property
    def any(self) -> bool:
        """Whether a call was made."""
        return self._count > 0

    @property
    def full(self) -> bool:
        """Whether no further call may be made."""
        return self._most is not None and self._count >= self._most

    def schema_of(self, name: str, key: str) -> Mapping[str, object]:
        """What a tool's schema says of one argument, as far as it says it plainly."""
        match self._schemas[name].get("properties"):
            case dict() as properties:
                schema = properties.get(key)
                return schema if isinstance(schema, dict) else {}
            case _:
                return {}

    def begin(self, tape: Tape, name: str) -> int:
        """A call begins: its number. Raises Malformed where there is no such tool, or no room."""
        if name not in self.names or self.full:
            raise Malformed
        number = self._count
        self._count += 1
        tape.say(CallBegun(number, self._new_id(), name))
        return number

    def whole(self, tape: Tape, name: str, arguments: str) -> None:
        """A call whose arguments are all there."""
        number = self.begin(tape, name)
        tape.say(CallArguments(number, arguments))


Written = tuple[str, str]  # a call: its name, and its arguments as JSON
Frame = tuple[str, str, str]  # what stands before, between and behind


class CallFormat(Protocol):
    """How a model writes calls.

    Calls begin with one of `marks`, wherever it stands, or with one of `openings` where an answer begins. `frame` and
    `around` say how calls are spelled, such that `read` reads them.
    """

    @property
    def marks(self) -> tuple[str, ...]:
        """What calls begin with."""
        ...

    @property
    def openings(self) -> tuple[str, ...]:
        """What they begin with where an answer begins."""
        ...

    @property
    def inner(self) -> tuple[str, ...]:
        """Marks within calls."""
        ...

    @property
    def frame(self) -> Frame:
        """What stands before the first call, between two, and behind the last."""
        ...

    @property
    def around(self) -> Frame:
        """What stands before a call's name, between it and the arguments, and behind these."""
        ...

    def name(self, name: str) -> str:
        """A name as it is spelled between them."""
        ...

    def read(self, tape: Tape, calls: Calls) -> Steps[None]:
        """Read one call, or several that belong together, from their mark on.

        Raises Malformed where the text is none; what was said and settled until then stays.
        """
        ...


def write_calls(calls: Sequence[Written], format: CallFormat) -> str:
    """The text of calls."""
    (first, then, last), (before, between, behind) = format.frame, format.around
    spelled = (f"{before}{format.name(name)}{between}{arguments}{behind}" for name, arguments in calls)
    return f"{first}{then.join(spelled)}{last}"


# -- JSON -----------------------------------------------------------------------------------------


def read_call_object(tape: Tape, calls: Calls) -> Steps[None]:
    """`{"name": …, "arguments": {…}}`, its keys in any order. The arguments are said as they come."""
    yield from tape.expect("{")
    name: str | None = None
    arguments: str | None = None  # those that came before the name
    begun = False
    while True:
        yield from tape.space()
        key = yield from read_string(tape, MAX_KEY)
        yield from tape.space()
        yield from tape.expect(":")
        yield from tape.space()
        if key == "name" and name is None:
            name = yield from read_string(tape, calls.longest_name)
            if name not in calls.names:
                raise Malformed
        elif key in ARGUMENTS and name is not None and arguments is None and not begun:
            yield from read_arguments(tape, calls, name)
            begun = True
        elif key in ARGUMENTS and arguments is None and not begun:
            arguments = yield from _held_arguments(tape)
        elif key in ASIDE or (begun and key not in ARGUMENTS):
            yield from _read_value(tape)
        else:
            raise Malformed
        yield from tape.space()
        if (yield from tape.expect(",", "}")) == "}":
            break
    if not begun:
        calls.whole(tape, name or "", arguments or "{}")
    tape.settle()


def read_arguments(tape: Tape, calls: Calls, name: str) -> Steps[None]:
    """A call's arguments: an object, said as it comes; an object spelled within a text; or null, which is none."""
    if (yield from tape.next()) != "{":
        calls.whole(tape, name, (yield from _held_arguments(tape)))
        return
    number: int | None = None

    def say(text: str) -> None:
        nonlocal number
        if number is None:
            number = calls.begin(tape, name)
        tape.say(CallArguments(number, text))

    yield from _read_balanced(tape, say)
    tape.settle()


def _held_arguments(tape: Tape) -> Steps[str]:
    """Arguments that are said once they are whole, as the text of an object."""
    text = yield from _read_value(tape)
    value = _parsed(text)
    if isinstance(value, str):
        text, value = value, _parsed(value)
    if value is None:
        return "{}"
    if not isinstance(value, dict):
        raise Malformed
    return text


def read_string(tape: Tape, longest: int) -> Steps[str]:
    """A JSON string, of so many characters at most."""
    text = yield from _read_quoted(tape, MAX_ESCAPED * longest + 2)
    value = _parsed(text)
    if not isinstance(value, str) or len(value) > longest:
        raise Malformed
    return value


def _parsed(text: str) -> object:
    try:
        value: object = orjson.loads(text)
    except orjson.JSONDecodeError:
        raise Malformed from None
    return value


def _read_value(tape: Tape) -> Steps[str]:
    """The text of a JSON value."""
    match (yield from tape.next()):
        case "{" | "[":
            parts: list[str] = []
            yield from _read_balanced(tape, parts.append, longest=MAX_HELD)
            return "".join(parts)
        case '"':
            return (yield from _read_quoted(tape, MAX_HELD))
        case _:
            return (yield from _read_word(tape))


def _read_word(tape: Tape) -> Steps[str]:
    """A number, or true, false or null."""
    text = ""
    while (character := (yield from tape.next())) and (character.isalnum() or character in "+-."):
        if len(text) > MAX_KEY:
            raise Malformed
        text += character
        tape.at += 1
    return text


def _read_quoted(tape: Tape, longest: int) -> Steps[str]:
    """The text of a JSON string, quotes included."""
    yield from tape.expect('"')
    text, escaped = '"', False
    while True:
        character = yield from tape.next()
        if not character or len(text) >= longest:
            raise Malformed
        text += character
        tape.at += 1
        if character == '"' and not escaped:
            return text
        escaped = character == "\\" and not escaped


def _read_balanced(tape: Tape, say: Callable[[str], None], *, longest: int | None = None) -> Steps[None]:
    """An object or a list up to its own closing bracket, said in parts from where it is known to be one.

    Raises Malformed where it breaks; what came before may be said.
    """
    scan, held, length = Scan(), "", 0
    while not scan.closed:
        if not (yield from tape.next()):
            raise Malformed
        part = scan.take(tape.rest)
        length += len(part)
        if longest is not None and length > longest:
            raise Malformed
        tape.at += len(part)
        held += part
        if scan.known and held:
            say(held)
            held = ""
        if scan.broken:
            raise Malformed
