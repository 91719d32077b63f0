"""Request bodies: JSON, checked once, and the first thing wrong with it in one small error."""

import asyncio
import re
from collections.abc import Mapping
from typing import TypeVar

import orjson
from pydantic import ValidationError
from pydantic_core import ErrorDetails
from starlette.requests import Request

from server.errors import ApiError
from server.neighbours import refuse_foreign
from server.wire.base import Wire

MAX_INLINE_BYTES = 64 * 1024  # a larger body is checked on a thread, so that streams go on meanwhile
HUGE = 2.0**63  # integers that 64 bits don't hold are read as such numbers
MAX_CONTAINERS = 100_000  # lists and objects; eight million of them, in 22 MB, keep the interpreter busy for 7 s

_STRINGS = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"')
_ONE_KIND = bytes.maketrans(b"{}", b"[]")
_SUBJECT = re.compile(r"^(Input|List|String) should")  # pydantic's own words
_NO_OBJECT = frozenset({"dict_type", "model_type", "model_attributes_type"})
_BOUNDS = frozenset({"greater_than", "greater_than_equal", "less_than", "less_than_equal"})
_NO_INTEGER = frozenset({"int_type", "int_from_float"})
_NO_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))

W = TypeVar("W", bound=Wire)


async def read_body(request: Request, model: type[W], *, max_depth: int) -> W:
    """The request's body as `model`, or an ApiError that names the first field at fault."""
    _check_media_type(request)
    data = await request.body()
    if len(data) <= MAX_INLINE_BYTES:
        return parse_body(data, model, max_depth=max_depth)
    return await asyncio.to_thread(parse_body, data, model, max_depth=max_depth)


def parse_body(data: bytes, model: type[W], *, max_depth: int) -> W:
    """`data` as `model`, or an ApiError."""
    fields = _object_of(data, max_depth)
    refuse_foreign(fields, model)
    return validated(fields, model)


def validated(fields: Mapping[str, object], model: type[W]) -> W:
    """A body's fields as `model`, or an ApiError."""
    try:
        return model.model_validate(fields)
    except ValidationError as error:
        raise _first_of(error) from None


def _check_media_type(request: Request) -> None:
    """Only JSON, not compressed; no type at all is taken for JSON."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind and kind != "application/json" and not kind.endswith("+json"):
        raise ApiError(415, "the content type must be application/json", code="unsupported_media_type")
    if request.headers.get("content-encoding", "identity").strip().lower() != "identity":
        raise ApiError(415, "the body must not be compressed", code="unsupported_media_type")


def _object_of(data: bytes, max_depth: int) -> dict[str, object]:
    brackets = _brackets(data, more_than=max_depth)
    if len(brackets) > 2 * MAX_CONTAINERS:
        raise ApiError(400, f"the body holds more than {MAX_CONTAINERS} lists and objects", code="invalid_json")
    if _is_deeper(brackets, max_depth):
        raise ApiError(400, f"the body is nested more than {max_depth} levels deep", code="invalid_json")
    try:
        body = orjson.loads(data)
    except orjson.JSONDecodeError:
        raise ApiError(400, "the body is not valid JSON in UTF-8", code="invalid_json") from None
    if not isinstance(body, dict):
        raise ApiError(400, "the body must be a JSON object", code="invalid_json")
    return body


def is_deeper(json: bytes, max_depth: int) -> bool:
    """Whether lists and objects in `json` are nested more than `max_depth` levels deep."""
    return _is_deeper(_brackets(json, more_than=max_depth), max_depth)


def _is_deeper(brackets: bytes, max_depth: int) -> bool:
    """Take the innermost pairs away, level by level: a few passes in C over what can be large."""
    for _ in range(max_depth):
        brackets = brackets.replace(b"[]", b"")
    return bool(brackets)


def _brackets(json: bytes, *, more_than: int) -> bytes:
    """Every bracket outside strings, all of one kind; none at all where there can't be `more_than` pairs."""
    if json.count(b"[") + json.count(b"{") <= more_than:
        return b""
    return _STRINGS.sub(b"", json).translate(_ONE_KIND, _NO_BRACKETS)


def _first_of(error: ValidationError) -> ApiError:
    """The first error, in its own words, none of which are the client's; its numbers may be."""
    detail = error.errors(include_url=False, include_context=False)[0]
    param = _param(detail)
    code = "unsupported_parameter" if detail["type"] == "unsupported_parameter" else None
    return ApiError(400, f"{param}: {_message(detail)}", code=code, param=param)


def _param(detail: ErrorDetails) -> str:
    """A path such as `messages[0].role`. Tags of unions, in angle brackets, are no part of it."""
    path = ""
    for part in detail["loc"]:
        if isinstance(part, int):
            path += f"[{part}]"
        elif not part.startswith("<"):
            path += f".{part}" if path else part
    return path


def _message(detail: ErrorDetails) -> str:
    if detail["type"] == "missing":
        return "is required"
    if detail["type"] in _NO_OBJECT:
        return "must be an object"
    number = detail["input"]
    if detail["type"] in _NO_INTEGER and isinstance(number, float) and abs(number) >= HUGE:
        return f"must be an integer of at most 64 bits, not {number!r}"
    limit = _SUBJECT.sub("must", detail["msg"].partition(" after validation")[0])
    return f"{limit}, not {number!r}" if detail["type"] in _BOUNDS else limit
