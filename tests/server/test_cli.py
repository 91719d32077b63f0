import os
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

from server.cli import main, open_what_is_closed

WAITS = "import signal; from server.cli import heed_signals; heed_signals({}); print('up', flush=True); signal.pause()"


@pytest.fixture
def kept() -> Iterator[None]:
    """What the signals do is the same after the test."""
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)}
    yield
    for number, action in before.items():
        signal.signal(number, action)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize("process", [1, 2])
@pytest.mark.usefixtures("hangups_heard")
def test_a_signal_ends_a_process_that_does_not_serve_yet(process: int, number: signal.Signals) -> None:
    with subprocess.Popen([sys.executable, "-c", WAITS.format(process)], stdout=subprocess.PIPE) as waiting:
        assert waiting.stdout is not None
        waiting.stdout.readline()
        waiting.send_signal(number)

    assert waiting.returncode == (128 + number if process == 1 else -number)


@pytest.mark.usefixtures("kept")
def test_the_first_process_of_a_container_heeds_signals_from_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "getpid", lambda: 1)

    main(["version"])

    assert signal.SIG_DFL not in {signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)}


@pytest.mark.parametrize(
    ("command", "closed", "code"),
    [("version", ">&-", 0), ("serve", "2>&-", 2), ("chat --url nowhere", "<&- >&- 2>&-", 2)],
)
def test_a_command_whose_streams_are_closed_ends_as_it_would_with_them(command: str, closed: str, code: int) -> None:
    shell = f"exec {sys.executable} -m server {command} {closed}"

    done = subprocess.run(["sh", "-c", shell], check=False, capture_output=True, text=True)

    assert done.returncode == code
    assert "Traceback" not in done.stderr


def test_a_closed_stream_is_one_that_leads_nowhere(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("stdin", "stdout", "stderr"):
        monkeypatch.setattr(sys, name, None)

    open_what_is_closed()

    with sys.stdin as source, sys.stdout as out, sys.stderr as errors:
        assert source.read() == ""
        assert out.write("\ud800") == errors.write("x") == 1
        assert os.get_inheritable(out.fileno())
