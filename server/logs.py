"""Logs: one line of key=value fields for each request and each change of state."""

import json
import logging
import re
from asyncio import CancelledError
from datetime import UTC, datetime
from typing import Protocol

Field = str | int | float | bool | None
_BARE = re.compile(r"[\w./:+@%-]+", re.ASCII)


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

    def failure(self, event: str, *, error: BaseException | None = None, **fields: Field) -> None:
        """What an operator should look at, with the traceback of `error`."""
        self._logger.error(event, exc_info=error, extra={"fields": fields})


class Stream(Protocol):
    """What lines are written to: a text file, a Console."""

    def write(self, text: str, /) -> object:
        """Take some text."""
        ...


def open_log(*, level: str, stream: Stream) -> Log:
    """Send everything that is logged in this process to `stream`: ours from `level` on, others' from warnings on."""
    handler = logging.StreamHandler(stream)
    handler.setFormatter(KeyValueFormatter())
    handler.addFilter(_is_news)
    root = logging.getLogger()
    root.setLevel(logging.WARNING)
    root.handlers[:] = [handler]
    logging.captureWarnings(capture=True)
    logging.getLogger("uvicorn").setLevel(logging.ERROR)  # it warns once a request about what clients send
    logger = logging.getLogger("tidemark")
    logger.setLevel(level.upper())
    return Log(logger)


def _is_news(record: logging.LogRecord) -> bool:
    """A request that is cancelled as the process ends has a line of its own; uvicorn's traceback adds nothing."""
    return not (record.exc_info and isinstance(record.exc_info[1], CancelledError))


class KeyValueFormatter(logging.Formatter):
    """Renders a record as one physical line, whatever its values hold."""

    def format(self, record: logging.LogRecord) -> str:
        """The time, the level, the event, its fields, and the traceback, escaped."""
        fields: dict[str, Field] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "event": record.getMessage(),
            "logger": None if record.name == "tidemark" else record.name,
            **getattr(record, "fields", {}),
        }
        if record.exc_info:
            fields["traceback"] = self.formatException(record.exc_info)
        return " ".join(f"{name}={_quote(value)}" for name, value in fields.items() if value is not None)


def _quote(value: Field) -> str:
    text = str(value)
    return text if _BARE.fullmatch(text) else json.dumps(text)
