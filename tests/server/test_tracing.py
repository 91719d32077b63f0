"""Traces are an extra: not needed, not imported, and named where they are wanted and missing."""

import logging
import subprocess
import sys
from pathlib import Path

import pytest

from config.errors import ConfigError
from server.logs import Log
from server.tracing import tracing
from tests.fakes import make_settings

ROOT = Path(__file__).parents[2]
LOG = Log(logging.Logger("tidemark"))


def test_nobody_traces_unless_asked() -> None:
    assert tracing(make_settings().server, LOG) is None


@pytest.mark.anyio
async def test_who_asks_gets_traces() -> None:
    from server.traces import Traces  # noqa: PLC0415  # an extra

    traces = tracing(make_settings(traces=True).server, LOG)

    assert isinstance(traces, Traces)
    await traces.close(60)


def test_an_extra_that_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "server.traces", raising=False)
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk", None)
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk.resources", None)

    with pytest.raises(ConfigError, match=r"needs the extra otel.*pip install .*\[otel\]"):
        tracing(make_settings(traces=True).server, LOG)


def test_the_server_runs_without_the_extra() -> None:
    program = (
        "import sys\n"
        "for name in ('opentelemetry.sdk', 'opentelemetry.exporter'): sys.modules[name] = None\n"  # as if not there
        "import server.commands, server.app, server.serve; print('runs')"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, check=True, capture_output=True, text=True)

    assert done.stdout.strip() == "runs"
