import os
import sys
import tempfile
from pathlib import Path

import pytest

from benchmarks.process import ServerFailed, serving


@pytest.fixture(autouse=True)
def _logs_in_a_folder_of_the_test(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))


def files(port: int) -> list[str]:
    return [sys.executable, "-m", "http.server", str(port), "--bind", "127.0.0.1"]


def broken(_port: int) -> list[str]:
    return [sys.executable, "-c", "print('no such model'); raise SystemExit(3)"]


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_a_server_runs_as_long_as_its_context() -> None:
    with serving("files", files) as server:
        server.wait_until("/")
        memory = server.resident_bytes()

    assert not alive(server.process.pid)
    assert memory is None or memory > 0


def test_a_server_is_ended_by_whatever_leaves_the_context() -> None:
    with pytest.raises(KeyboardInterrupt), serving("files", files) as server:
        raise KeyboardInterrupt

    assert not alive(server.process.pid)


def test_a_server_that_dies_shows_what_it_wrote(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ServerFailed, match="broken ended with exit code 3"), serving("broken", broken) as server:
        server.wait_until("/")

    assert "no such model" in capfd.readouterr().err
