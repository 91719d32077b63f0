"""Tracing: whether requests are traced, and what is missing where they can't be."""

from collections.abc import Callable

from config.errors import ConfigError
from config.settings import ServerSettings
from server.exchange import Tracing
from server.logs import Log


def tracing(settings: ServerSettings, log: Log) -> Tracing | None:
    """What makes spans, or None where none are wanted. Raises ConfigError where the extra is not installed."""
    return import_traces()(log) if settings.traces else None


def import_traces() -> Callable[[Log], Tracing]:
    """What opens them. Raises ConfigError where the extra is not installed."""
    try:
        from server.traces import open_traces  # noqa: PLC0415  # an extra, and a third of a second
    except ModuleNotFoundError as missing:
        how = "pip install --constraint constraints.txt --editable '.[otel]'; an image is built with EXTRAS=otel"
        message = f"server.traces: needs the extra otel, which is not installed (no module {missing.name}): {how}"
        raise ConfigError(message) from None
    return open_traces
