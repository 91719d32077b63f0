"""Log lines: one physical line an event, whatever is in it."""

import asyncio
import io
import json
import logging
from collections.abc import Iterator
from datetime import datetime

import pytest
from hypothesis import given, strategies as st

from server.logs import JsonFormatter, Log, open_log, open_output, said
from tests.fakes import make_settings


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


def log_to(stream: io.StringIO, level: str = "info", *, as_json: bool = False) -> Log:
    return open_log(level=level, stream=stream, as_json=as_json)


def objects(stream: io.StringIO) -> list[dict[str, object]]:
    """Every line, each of which is one physical line for any reader."""
    text = stream.getvalue()
    assert text.isascii()
    return [json.loads(line) for line in text.splitlines()]


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


AWKWARD = 'a\nlevel=error "b" \u2028 \x1b[31m \ud800'


def test_json_lines_keep_the_types_of_their_fields(stream: io.StringIO) -> None:
    log_to(stream, as_json=True).request({"status": 200, "seconds": 0.5, "complete": False, "key": None}, probe=False)

    [line] = objects(stream)

    assert datetime.fromisoformat(str(line.pop("time"))).tzinfo is not None
    assert line == {"level": "info", "event": "request", "status": 200, "seconds": 0.5, "complete": False}


@given(st.text(st.characters()), st.text(st.characters(codec=None)))
def test_whatever_a_value_holds_it_is_one_json_line(event: str, value: str) -> None:
    record = logging.LogRecord("any", logging.ERROR, "", 0, "%s", (event,), None)
    record.fields = {"value": value}

    line = JsonFormatter().format(record)

    assert line.splitlines() == [line]
    assert (json.loads(line)["event"], json.loads(line)["value"]) == (event, value)


@pytest.mark.parametrize("as_json", [False, True])
def test_every_kind_of_record_is_one_line(stream: io.StringIO, as_json: bool) -> None:
    log = log_to(stream, "debug", as_json=as_json)

    log.debug("load_failed", error=ValueError(AWKWARD))
    log.warning("stalled", path=AWKWARD)
    log.failure("engine_died", error=ValueError(AWKWARD))
    logging.getLogger("uvicorn.error").error("Exception in ASGI application\n", exc_info=ValueError(AWKWARD))
    logging.getLogger("asyncio").error("never retrieved\nfuture: %s", AWKWARD)
    logging.getLogger("py.warnings").warning(AWKWARD)

    assert len(stream.getvalue().splitlines()) == 6


def failed(words: str) -> BaseException:
    """An error with a cause and others beside it, all of which hold words."""
    error = ExceptionGroup(words, [ValueError(words), OSError(words)])
    error.__cause__ = KeyError(words)
    return error


@pytest.mark.parametrize("as_json", [False, True])
def test_what_a_request_provoked_is_told_without_its_words(stream: io.StringIO, as_json: bool) -> None:
    log, words = log_to(stream, as_json=as_json), "the client's own"

    log.request_failure("request_failed", error=failed(words), request_id="r")
    logging.getLogger("server.telling").error("stream_failed", exc_info=failed(words), extra={"discreet": True})
    logging.getLogger("uvicorn.error").error("Exception in ASGI application\n", exc_info=failed(words))
    logging.getLogger("asyncio").error("Task exception was never retrieved\nfuture: %s", failed(words))

    text = stream.getvalue()
    assert words not in text
    assert text.count("KeyError") == text.count("ValueError") == text.count("OSError") == 3


def test_a_long_chain_of_errors_is_cut(stream: io.StringIO) -> None:
    log_to(stream).request_failure("request_failed", error=ExceptionGroup("many", [ValueError()] * 50))

    assert stream.getvalue().count("ValueError") == 7


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("log_format", "on_a_terminal", "as_json"),
    [("auto", True, False), ("auto", False, True), ("text", False, False), ("json", True, True)],
)
@pytest.mark.usefixtures("stream")
def test_lines_are_text_on_a_terminal_and_json_elsewhere_unless_it_is_set(
    log_format: str, on_a_terminal: bool, as_json: bool
) -> None:
    output = Terminal() if on_a_terminal else io.StringIO()

    console, log = open_output(make_settings(log_format=log_format).server, output)
    console.progress("loading")
    console.line("ready")
    log.info("serving", model="m")

    text = output.getvalue()
    assert text.count('"event":"said"') == (2 if as_json else 0)
    assert ('"event":"serving","model":"m"' in text) == as_json
    assert (" event=serving model=m\n" in text) != as_json


def test_what_people_are_told_is_an_object_too() -> None:
    line = said("info", 'tidemark: "model"\nin two lines')

    assert line.splitlines() == [line]
    assert json.loads(line)["event"] == "said"
    assert json.loads(line)["text"] == 'tidemark: "model"\nin two lines'
