"""What can't be read as HTTP: refused in the envelope, with one line in the log."""

import asyncio
from typing import Any

import httpx
import orjson
import pytest

from tests.fakes import make_service
from tests.http.clients import listening
from tests.http.test_disconnects import stuck, until
from tests.http.test_log_lines import Lines, lines

__all__ = ["lines"]
pytestmark = pytest.mark.anyio
CHUNKED = b"host: x\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n"
STREAM = orjson.dumps({"model": "org/tiny", "prompt": "a", "stream": True})
ASKED = b"POST /v1/completions HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n" % len(STREAM)


async def all_of(url: str, sent: bytes) -> tuple[bytes, dict[str, str], bytes]:
    """The status line, the headers and the body of what is answered until the connection is closed."""
    reader, writer = await asyncio.open_connection("127.0.0.1", httpx.URL(url).port)
    writer.write(sent)
    async with asyncio.timeout(30):  # a server that answers nothing fails here
        head, _, body = (await reader.read()).partition(b"\r\n\r\n")
    writer.close()
    first, *headers = head.split(b"\r\n")
    return first, dict(line.decode().split(": ", 1) for line in headers), body


@pytest.mark.parametrize(
    "sent",
    [
        b"FOO / HTTP/1.1\r\nhost: x\r\n\r\n",
        b"\x16\x03\x01 garbage\r\n\r\n",
        b"GET /\xff HTTP/1.1\r\nhost: x\r\n\r\n",
        b"GET /" + b"x" * 70_000 + b" HTTP/1.1\r\nhost: x\r\n\r\n",
    ],
)
async def test_what_is_no_http_is_refused_in_the_envelope_with_one_line(lines: Lines, sent: bytes) -> None:
    async with listening(make_service(), lines.log) as url:
        first, headers, body = await all_of(url, sent)

    error: dict[str, Any] = orjson.loads(body)["error"]
    [line] = lines.requests
    assert first == b"HTTP/1.1 400 Bad Request"
    assert headers["content-type"] == "application/json"
    assert (set(error), error["code"]) == ({"message", "type", "param", "code"}, "malformed_request")
    assert (line["status"], line["error_code"]) == (400, "malformed_request")
    assert line["request_id"] == headers["x-request-id"] == headers["request-id"]


@pytest.mark.parametrize("waits", [True, False])
async def test_a_body_that_breaks_is_refused_in_the_envelope_of_its_path_and_told_in_its_own_line(
    lines: Lines, *, waits: bool
) -> None:
    async with listening(make_service(), lines.log) as url:
        reader, writer = await asyncio.open_connection("127.0.0.1", httpx.URL(url).port)
        if waits:
            writer.write(b"POST /v1/messages HTTP/1.1\r\nexpect: 100-continue\r\n" + CHUNKED)
            await reader.readuntil(b"\r\n\r\n")  # the application waits for the body
            writer.write(b"not a size\r\n")
        else:
            writer.write(b"POST /v1/messages HTTP/1.1\r\n" + CHUNKED + b"not a size\r\n")
        head, _, body = (await reader.read()).partition(b"\r\n\r\n")
        writer.close()
        await until(lambda: bool(lines.requests))

    told = orjson.loads(body)
    [line] = lines.requests
    assert head.startswith(b"HTTP/1.1 400")
    assert (told["type"], told["error"]["type"]) == ("error", "invalid_request_error")
    assert told["request_id"] == line["request_id"]
    assert (line["endpoint"], line["outcome"], line["error_code"]) == ("/messages", "aborted", "malformed_request")


async def test_what_comes_behind_a_request_that_is_answered_already_has_a_line_and_an_answer_of_its_own(
    lines: Lines,
) -> None:
    async with listening(make_service(), lines.log) as url:
        reader, writer = await asyncio.open_connection("127.0.0.1", httpx.URL(url).port)
        writer.write(b"GET /version HTTP/1.1\r\nhost: x\r\n\r\n")
        await until(lambda: bool(lines.requests))
        writer.write(b"FOO")
        answers = await reader.read()
        writer.close()

    assert answers.count(b"HTTP/1.1 200") == answers.count(b"HTTP/1.1 400") == 1
    assert [line["status"] for line in lines.requests] == [200, 400]


async def test_a_stream_that_garbage_breaks_off_holds_no_word_of_it(lines: Lines) -> None:
    async with listening(make_service(stuck(at=1)), lines.log) as url:
        reader, writer = await asyncio.open_connection("127.0.0.1", httpx.URL(url).port)
        writer.write(ASKED + STREAM)
        begun = await reader.readuntil(b"data: ")
        writer.write(b"FOO")
        rest = await reader.read()
        writer.close()
        await until(lambda: len(lines.requests) > 1)

    assert begun.startswith(b"HTTP/1.1 200")
    assert b"400" not in rest
    assert {line["status"] for line in lines.requests} == {200, 400}
