"""Calls that are written in tags: `<function=name><parameter=key>value</parameter></function>`."""

from collections.abc import Mapping

import orjson

from server.reading.calls import MAX_HELD, Calls
from server.reading.tape import Malformed, Steps, Tape

MAX_PARAMETER = 256  # characters of a parameter's name
_WORDS = {"True": True, "False": False, "None": None}  # Python's, which models mix in


def read_tagged_call(tape: Tape, calls: Calls) -> Steps[None]:
    """One call, which is said once it is whole."""
    yield from tape.expect("<function=")
    name = yield from tape.until(">", calls.longest_name)
    if name not in calls.names:
        raise Malformed
    arguments: dict[str, object] = {}
    while True:
        yield from tape.space()
        if (yield from tape.expect("<parameter=", "</function>")) == "</function>":
            break
        key = yield from tape.until(">", MAX_PARAMETER)
        if key in arguments:
            raise Malformed
        value = yield from tape.until("</parameter>", MAX_HELD)
        arguments[key] = _typed(value.removeprefix("\n").removesuffix("\n"), calls.schema_of(name, key))
    calls.whole(tape, name, orjson.dumps(arguments).decode())


def _typed(text: str, schema: Mapping[str, object]) -> object:
    """A parameter's value: text where its schema says so, else the JSON that it is, if it is some."""
    if schema.get("type") == "string":
        return text
    if text in _WORDS:
        return _WORDS[text]
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        return text
