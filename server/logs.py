"""Logs: one line for each request and each change of state, as JSON or key=value fields, none with a client's text."""

import json
import logging
import re
import traceback
from asyncio import CancelledError
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Protocol, TextIO

from config.settings import ServerSettings
from server.console import Console

Field = str | int | float | bool | None
_BARE = re.compile(r"[\w./:+@%-]+", re.ASCII)
_FOREIGN = ("uvicorn", "asyncio")  # what they log are errors of requests, in which anything may be said
_MAX_ERRORS = 8  # of a chain of errors


class Log:
    """Writes events with fields through one logger; a field that is None is left out."""

    def __init__(self, logger: logging.Logger) -> None:
        self._logger = logger

    def debug(self, event: str, *, error: BaseException | None = None, **fields: Field) -> None:
        """What only a closer look needs, such as a probe."""
        self._logger.debug(event, exc_info=error, extra={"fields": fields})

    def info(self, event: str, **fields: Field) -> None:
        """A request's end, a change of state."""
        self._logger.info(event, extra={"fields": fields})

    def warning(self, event: str, **fields: Field) -> None:
        """What an operator may want to look at."""
        self._logger.warning(event, extra={"fields": fields})

    def failure(self, event: str, *, error: BaseException | None = None, **fields: Field) -> None:
        """What an operator should look at, with the traceback of `error`."""
        self._logger.error(event, exc_info=error, extra={"fields": fields})

    def request(self, fields: Mapping[str, Field], *, probe: bool) -> None:
        """The one line of a request; that of a probe is for a closer look."""
        self._logger.log(logging.DEBUG if probe else logging.INFO, "request", extra={"fields": fields})

    def request_failure(self, event: str, *, error: BaseException, **fields: Field) -> None:
        """The same of an error that a request provoked, without its words: they may be the client's."""
        self._logger.error(event, exc_info=error, extra={"fields": fields, "discreet": True})


class Stream(Protocol):
    """What lines are written to: a text file, a Console."""

    def write(self, text: str, /) -> object:
        """Take some text."""
        ...


def open_log(*, level: str, stream: Stream, as_json: bool) -> Log:
    """Send everything that is logged in this process to `stream`: ours from `level` on, others' from warnings on."""
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonFormatter() if as_json else KeyValueFormatter())
    handler.addFilter(_is_news)
    root = logging.getLogger()
    root.setLevel(logging.WARNING)
    root.handlers[:] = [handler]
    logging.captureWarnings(capture=True)
    logging.getLogger("uvicorn").setLevel(logging.ERROR)  # it warns once a request about what clients send
    logger = logging.getLogger("tidemark")
    logger.setLevel(level.upper())
    return Log(logger)


def open_output(settings: ServerSettings, stream: TextIO) -> tuple[Console, Log]:
    """What a server says to people and what it logs, all of it on `stream`, as the settings have it."""
    auto = settings.log_format == "auto"
    as_json = not stream.isatty() if auto else settings.log_format == "json"
    console = Console(stream, frame=said if as_json else None)
    return console, open_log(level=settings.log_level, stream=console, as_json=as_json)


def _is_news(record: logging.LogRecord) -> bool:
    """A request that is cancelled as the process ends has a line of its own; uvicorn's traceback adds nothing."""
    return not (record.exc_info and isinstance(record.exc_info[1], CancelledError))


class JsonFormatter(logging.Formatter):
    """Renders a record as a JSON object on one physical line, in ASCII."""

    def format(self, record: logging.LogRecord) -> str:
        """The time, the level, the event, its fields, and the traceback."""
        return json_line(_fields(record))


class KeyValueFormatter(logging.Formatter):
    """Renders a record as key=value fields on one physical line, whatever its values hold."""

    def format(self, record: logging.LogRecord) -> str:
        """The time, the level, the event, its fields, and the traceback, escaped."""
        return " ".join(f"{name}={_quote(value)}" for name, value in _fields(record).items())


def json_line(fields: dict[str, Field]) -> str:
    """Fields as one line that any log collector reads."""
    return json.dumps(fields, separators=(",", ":"))


def said(level: str, text: str) -> str:
    """What is said to people, as such a line."""
    return json_line({"time": _time(datetime.now(UTC)), "level": level, "event": "said", "text": text})


def _fields(record: logging.LogRecord) -> dict[str, Field]:
    foreign = record.name.split(".")[0] in _FOREIGN
    event = record.getMessage()
    fields: dict[str, Field] = {
        "time": _time(datetime.fromtimestamp(record.created, UTC)),
        "level": record.levelname.lower(),
        "event": event.partition("\n")[0] if foreign else event,
        "logger": None if record.name == "tidemark" else record.name,
        **getattr(record, "fields", {}),
    }
    if record.exc_info and record.exc_info[1] is not None:
        discreet = foreign or getattr(record, "discreet", False)
        error = record.exc_info[1]
        fields["traceback"] = _where(error) if discreet else "".join(traceback.format_exception(error)).rstrip()
    return {name: value for name, value in fields.items() if value is not None}


def _time(moment: datetime) -> str:
    return moment.isoformat(timespec="milliseconds")


def _where(error: BaseException) -> str:
    """Where an error came from, and its causes, the last first, by their classes alone."""
    parts = []
    for each, _ in zip(_chain(error), range(_MAX_ERRORS), strict=False):
        parts += [f"{type(each).__module__}.{type(each).__qualname__}\n", *traceback.format_tb(each.__traceback__)]
    return "".join(parts).rstrip()


def _chain(error: BaseException) -> Iterator[BaseException]:
    yield error
    for part in error.exceptions if isinstance(error, BaseExceptionGroup) else ():
        yield from _chain(part)
    earlier = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    if earlier is not None:
        yield from _chain(earlier)


def _quote(value: Field) -> str:
    text = str(value)
    return text if _BARE.fullmatch(text) else json.dumps(text)
