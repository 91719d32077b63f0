"""Log lines: one physical line an event, whatever is in it."""

import asyncio
import io
import json
import logging
from collections.abc import Iterator

import pytest

from server.logs import Log, open_log


@pytest.fixture
def stream() -> Iterator[io.StringIO]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    uvicorn, ours = logging.getLogger("uvicorn"), logging.getLogger("tidemark")
    levels = uvicorn.level, ours.level
    yield io.StringIO()
    logging.captureWarnings(capture=False)
    root.handlers[:] = handlers
    root.setLevel(level)
    uvicorn.setLevel(levels[0])
    ours.setLevel(levels[1])


def log_to(stream: io.StringIO, level: str = "info") -> Log:
    return open_log(level=level, stream=stream)


def test_an_event_is_one_line_of_fields(stream: io.StringIO) -> None:
    log_to(stream).info("request", method="GET", path="/v1/models", status=200, ms=1.5, prompt_tokens=None)

    (line,) = stream.getvalue().splitlines()

    assert line.startswith("time=")
    assert line.endswith(" level=info event=request method=GET path=/v1/models status=200 ms=1.5")


def test_a_value_with_line_breaks_or_quotes_stays_on_its_line(stream: io.StringIO) -> None:
    value = 'a\nlevel=error "b" \u2028 \x1b[31m'

    log_to(stream).info("request", path=value)

    (line,) = stream.getvalue().splitlines()
    assert json.loads(line.split(" path=", 1)[1]) == value


def test_a_traceback_is_a_field_of_the_same_line(stream: io.StringIO) -> None:
    log = log_to(stream)

    try:
        int("boom")
    except ValueError as error:
        log.failure("engine_died", error=error)

    (line,) = stream.getvalue().splitlines()
    assert " level=error event=engine_died traceback=" in line
    assert json.loads(line.split(" traceback=", 1)[1]).endswith("literal for int() with base 10: 'boom'")


def test_what_lies_below_the_level_is_not_written(stream: io.StringIO) -> None:
    log_to(stream).debug("request", path="/health")
    log_to(stream, "error").info("request", path="/health")

    assert stream.getvalue() == ""


def test_what_libraries_log_has_the_same_form(stream: io.StringIO) -> None:
    log_to(stream)

    logging.getLogger("some.library").warning("no %s", "luck")

    assert stream.getvalue().endswith(' level=warning event="no luck" logger=some.library\n')


def test_a_request_cancelled_at_the_end_leaves_no_traceback(stream: io.StringIO) -> None:
    log_to(stream)

    logging.getLogger("uvicorn.error").error("Exception in ASGI application", exc_info=asyncio.CancelledError())

    assert stream.getvalue() == ""
