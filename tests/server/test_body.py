import asyncio
import re

import orjson
import pytest
from hypothesis import given, strategies as st
from pydantic import Field
from starlette.requests import Request
from starlette.types import Message

from server.body import MAX_CONTAINERS, MAX_INLINE_BYTES, is_deeper, parse_body, read_body
from server.errors import ApiError
from server.wire.base import Tokens, Wire
from server.wire.chat import ChatRequest


class Item(Wire):
    size: int


class Body(Wire):
    count: int = Field(ge=1)
    share: float | None = None
    items: list[Item] | None = None
    tokens: Tokens | None = None


def parse(data: bytes, *, max_depth: int = 8) -> Body:
    return parse_body(data, Body, max_depth=max_depth)


def refusal(data: bytes) -> ApiError:
    with pytest.raises(ApiError) as caught:
        parse(data)
    return caught.value


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{:",
        b"[]",
        b'"x"',
        b"null",
        b"1",
        b'{"count": NaN}',
        b'{"count": Infinity}',
        b'{"count": 1, "share": 1e999}',
        b'{"count": 1} {}',
        b'{"x": "\\ud800y", "count": 1}',
        b'{"\\udfff": 1, "count": 1}',
        b'{"x": "\xff", "count": 1}',
        b"\xef\xbb\xbf{}",
        b'{"count": 1',
        b"{'count': 1}",
    ],
)
def test_what_is_no_json_object_is_refused_as_such(data: bytes) -> None:
    error = refusal(data)

    assert (error.status, error.body["code"], error.body["param"]) == (400, "invalid_json", None)


def test_nesting_is_allowed_up_to_the_limit_and_not_one_level_more() -> None:
    deepest = b'{"count": 1, "x": ' + b"[" * 7 + b"]" * 7 + b"}"
    too_deep = b'{"count": 1, "x": ' + b"[" * 8 + b"]" * 8 + b"}"

    assert parse(deepest, max_depth=8).count == 1
    assert "8 levels" in str(refusal(too_deep))


@pytest.mark.parametrize("levels", [500, 1_000, 5_000, 200_000])
def test_deep_nesting_is_refused_and_crashes_nothing(levels: int) -> None:
    assert refusal(b'{"x":' + b"[" * levels + b"]" * levels + b"}").status == 400
    assert refusal(b'{"x":' * levels + b"1" + b"}" * levels).status == 400


@pytest.mark.parametrize("text", ["[{" * 100, '\\"[' * 100, "\\\\", '\\\\\\"[[[', "]}" * 100])
def test_brackets_within_text_are_no_nesting(text: str) -> None:
    padding = b"[" + b",".join([b"[]"] * 20) + b"]"  # enough brackets that they are looked at

    assert parse(b'{"count": 1, "x": "%s", "y": %s}' % (text.encode(), padding)).count == 1


def test_more_lists_and_objects_than_any_request_has_are_refused_before_they_are_made() -> None:
    many = b"[" + b",".join([b"[]"] * MAX_CONTAINERS) + b"]"

    assert "100000" in str(refusal(b'{"count": 1, "x": %s}' % many))
    assert parse(b'{"count": 1, "x": "%s"}' % many).count == 1


def depth(value: object) -> int:
    children = value.values() if isinstance(value, dict) else value if isinstance(value, list) else None
    return 0 if children is None else 1 + max(map(depth, children), default=0)


LEAVES = st.none() | st.text(st.sampled_from('[]{}"\\a'), max_size=6)
JSON = st.recursive(LEAVES, lambda inner: st.lists(inner) | st.dictionaries(st.text('[]{}"\\', max_size=2), inner))


@given(JSON)
def test_depth_is_what_a_walk_would_find(value: object) -> None:
    found = next(limit for limit in range(100) if not is_deeper(orjson.dumps(value), limit))

    assert found == depth(value)


@pytest.mark.parametrize("value", ["true", "1.0", "1.5", '"1"', "[1]", "null", "18446744073709551616"])
def test_only_an_integer_is_an_integer(value: str) -> None:
    error = refusal(b'{"count": %s}' % value.encode())

    assert (error.status, error.body["param"]) == (400, "count")


def test_an_integer_is_a_number_and_a_boolean_is_none() -> None:
    assert parse(b'{"count": 1, "share": 2}').share == 2.0
    assert refusal(b'{"count": 1, "share": true}').body["param"] == "share"


def test_the_field_at_fault_is_named_with_its_place() -> None:
    error = refusal(b'{"count": 1, "items": [{"size": 1}, {"size": "x"}]}')

    assert error.body["param"] == "items[1].size"
    assert str(error) == "items[1].size: must be a valid integer"


def test_a_missing_field_and_a_range_are_told_in_words() -> None:
    assert str(refusal(b"{}")) == "count: is required"
    assert str(refusal(b'{"count": 0}')) == "count: must be greater than or equal to 1, not 0"


@pytest.mark.parametrize("number", ["18446744073709551616", "-9223372036854775809", "1e30"])
def test_an_integer_that_64_bits_do_not_hold_is_told_by_its_size(number: str) -> None:
    told = f"count: must be an integer of at most 64 bits, not {float(number)!r}"

    assert str(refusal(b'{"count": %s}' % number.encode())) == told
    assert str(refusal(b'{"count": 1.5}')) == "count: must be a valid integer"


@pytest.mark.parametrize(
    ("field", "told"),
    [
        ('"messages": []', "messages: must have at least 1 item"),
        ('"messages": [5]', "messages[0]: must be an object"),
        ('"stop": ""', "stop: must have at least 1 character"),
        ('"prediction": 5', "prediction: must be an object"),
    ],
)
def test_an_error_speaks_of_json_and_not_of_the_code_that_checks_it(field: str, told: str) -> None:
    body = b'{"model": "m", "messages": [{"role": "user", "content": "x"}], %s}' % field.encode()

    with pytest.raises(ApiError, match=re.escape(told) + "$"):
        parse_body(body, ChatRequest, max_depth=10)


def test_an_error_never_repeats_what_was_sent() -> None:
    error = refusal(b'{"count": "%s"}' % (b"secret" * 10_000))

    assert "secret" not in str(error.envelope)


def test_one_wrong_token_of_many_is_named_alone() -> None:
    error = refusal(b'{"count": 1, "tokens": [%s]}' % b",".join([b"true"] * 100_000))

    assert error.body["param"] == "tokens[0]"
    assert len(str(error.envelope)) < 300


def test_unknown_fields_are_ignored() -> None:
    assert parse(b'{"count": 3, "foo": {"bar": [1]}}').count == 3


def request_of(data: bytes, **headers: str) -> Request:
    async def receive() -> Message:
        return {"type": "http.request", "body": data, "more_body": False}

    raw = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
    return Request({"type": "http", "method": "POST", "path": "/", "headers": raw}, receive)


@pytest.mark.anyio
@pytest.mark.parametrize(
    "kind", ["application/json", "application/json; charset=utf-8", "Application/JSON", "application/vnd.api+json"]
)
async def test_json_by_any_of_its_names_is_read(kind: str) -> None:
    body = await read_body(request_of(b'{"count": 1}', content_type=kind), Body, max_depth=8)

    assert body.count == 1


@pytest.mark.anyio
async def test_a_body_without_a_content_type_is_taken_for_json() -> None:
    assert (await read_body(request_of(b'{"count": 1}'), Body, max_depth=8)).count == 1


@pytest.mark.anyio
@pytest.mark.parametrize(
    "headers",
    [
        {"content_type": "text/plain"},
        {"content_type": "application/x-www-form-urlencoded"},
        {"content_type": "multipart/form-data; boundary=x"},
        {"content_type": "application/json", "content_encoding": "gzip"},
    ],
)
async def test_another_media_type_or_a_compressed_body_is_415(headers: dict[str, str]) -> None:
    with pytest.raises(ApiError) as caught:
        await read_body(request_of(b'{"count": 1}', **headers), Body, max_depth=8)

    assert caught.value.status == 415


@pytest.mark.anyio
async def test_a_large_body_is_checked_off_the_event_loop() -> None:
    padding = b'"%s"' % (b"x" * MAX_INLINE_BYTES)
    turns = 0

    async def turn() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    async with asyncio.TaskGroup() as group:
        turning = group.create_task(turn())
        await asyncio.sleep(0)
        before = turns
        body = await read_body(request_of(b'{"count": 1, "x": %s}' % padding), Body, max_depth=8)
        turning.cancel()

    assert body.count == 1
    assert turns > before
