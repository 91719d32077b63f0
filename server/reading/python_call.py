"""Calls that are written as Python does: `name(key="value", …)`, with literals for values."""

import ast
import warnings

import orjson

from server.reading.calls import Calls
from server.reading.tape import Malformed, Steps, Tape

MAX_CALL = 1 << 16  # characters; Python's own parser takes many times as much memory as a text
_WORDS = {"true": True, "false": False, "null": None}  # JSON's, which models mix in


def read_python_call(tape: Tape, calls: Calls) -> Steps[None]:
    """One call, which is said once it is whole."""
    name = ""
    while (character := (yield from tape.next())) != "(":
        if not character or character.isspace() or len(name) >= calls.longest_name:
            raise Malformed
        name += character
        tape.at += 1
    if name not in calls.names:
        raise Malformed
    calls.whole(tape, name, python_arguments((yield from _read_arguments(tape))))


def _read_arguments(tape: Tape) -> Steps[str]:
    """The text from the opening bracket to the one that closes it."""
    text, depth, quote, escaped = "", 0, "", False
    while True:
        character = yield from tape.next()
        if not character or len(text) >= MAX_CALL:
            raise Malformed
        text += character
        tape.at += 1
        if quote:
            quote = "" if character == quote and not escaped else quote
            escaped = character == "\\" and not escaped
        elif character in "'\"":
            quote = character
        else:
            depth += (character in "([{") - (character in ")]}")
            if depth == 0:
                return text


def python_arguments(text: str) -> str:
    """The arguments in brackets as the text of a JSON object. Raises Malformed where there is none for them."""
    try:
        with warnings.catch_warnings(action="ignore"):  # Python finds some literals odd
            call = ast.parse(f"f{text}", mode="eval").body
        if not isinstance(call, ast.Call) or call.args:
            raise Malformed
        items = [item for keyword in call.keywords for item in _values(keyword).items()]
        values = dict(items)
        if len(values) < len(items):
            raise Malformed
        return orjson.dumps(values).decode()
    except (SyntaxError, ValueError, TypeError, RecursionError, MemoryError):
        raise Malformed from None


def _values(keyword: ast.keyword) -> dict[str, object]:
    """What one keyword gives: itself, or what stands in the object behind `**`."""
    value = _value(keyword.value)
    if keyword.arg is not None:
        return {keyword.arg: value}
    if not isinstance(value, dict):
        raise Malformed
    return value


def _value(node: ast.expr) -> object:
    """A literal's value."""
    match node:
        case ast.Constant(value=None | bool() | int() | float() | str() as value):
            return value
        case ast.Name(id=word) if word in _WORDS:
            return _WORDS[word]
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() | float() as value)):
            return -value
        case ast.List(elts=elements) | ast.Tuple(elts=elements):
            return [_value(element) for element in elements]
        case ast.Dict(keys=keys, values=values):
            return {_text(key): _value(value) for key, value in zip(keys, values, strict=True)}
        case _:
            raise Malformed


def _text(key: ast.expr | None) -> str:
    match key:
        case ast.Constant(value=str() as value):
            return value
        case _:
            raise Malformed
