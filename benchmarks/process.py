"""A process in a group of its own, a server or not: started, awaited and always ended; what it writes is logged."""

import contextlib
import http.client
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import NoReturn

HOST = "127.0.0.1"
MAX_START_SECONDS = 600
MAX_END_SECONDS = 60  # longer than a drain
POLL_SECONDS = 0.05
NUM_LOG_LINES = 30
SESSION_FIELD = 3  # in /proc/PID/stat, counted from behind the command's closing parenthesis


class ServerFailed(Exception):
    """The server did not start, or died."""


@dataclass(frozen=True)
class Server:
    """A running server. `started` is on the clock of `time.perf_counter`."""

    name: str
    port: int
    process: subprocess.Popen[bytes]
    started: float

    def get(self, path: str) -> tuple[int, bytes]:
        """Status and body of a GET."""
        connection = http.client.HTTPConnection(HOST, self.port, timeout=60)
        with contextlib.closing(connection):
            connection.request("GET", path)
            answer = connection.getresponse()
            return answer.status, answer.read()

    def wait_until(self, path: str) -> None:
        """Return once a GET of `path` answers 200."""
        while time.perf_counter() - self.started < MAX_START_SECONDS:
            self.check_alive()
            with contextlib.suppress(OSError, http.client.HTTPException):
                if self.get(path)[0] == HTTPStatus.OK:
                    return
            time.sleep(POLL_SECONDS)
        raise ServerFailed(f"{self.name} was not ready after {MAX_START_SECONDS} seconds")

    def check_alive(self) -> None:
        """Raise ServerFailed if the process has ended."""
        if self.process.poll() is not None:
            raise ServerFailed(f"{self.name} ended with exit code {self.process.returncode}")

    def resident_bytes(self) -> int | None:
        """Memory that the server's processes hold now; None where the system has no /proc."""
        sizes = [_resident_bytes(folder) for folder in Path("/proc").glob("[0-9]*") if self._owns(folder)]
        return sum(sizes) if sizes else None

    def _owns(self, folder: Path) -> bool:
        with contextlib.suppress(OSError):  # it has just ended
            stat = (folder / "stat").read_text()
            return int(stat.rpartition(")")[2].split()[SESSION_FIELD]) == self.process.pid
        return False


def _resident_bytes(folder: Path) -> int:
    with contextlib.suppress(OSError, IndexError):
        return int((folder / "statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    return 0


@contextlib.contextmanager
def serving(name: str, command: Callable[[int], Sequence[str]]) -> Iterator[Server]:
    """Run `command(port)` as long as the context lasts. Whatever raises in it, the log's end is shown."""
    port = _free_port()
    with running(name, command(port)) as (process, started):
        yield Server(name, port, process, started)


@contextlib.contextmanager
def running(
    name: str, command: Sequence[str], *, piped: bool = False
) -> Iterator[tuple[subprocess.Popen[bytes], float]]:
    """Run `command` as long as the context lasts: the process, and when it was started.

    `piped`: what it writes to its standard output comes through a pipe, and only errors go to the log.
    """
    with tempfile.NamedTemporaryFile(prefix=f"{name.replace(' ', '-')}-", suffix=".log", delete=False) as log:
        started = time.perf_counter()
        output = subprocess.PIPE if piped else log
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=log, start_new_session=True)
    path = Path(log.name)
    try:
        yield process, started
    except BaseException:
        _show_end(name, path)
        raise
    else:
        path.unlink()
    finally:
        _end(process)


def _free_port() -> int:
    with socket.create_server((HOST, 0)) as listener:
        port: int = listener.getsockname()[1]
        return port


def _show_end(name: str, log: Path) -> None:
    lines = log.read_text(errors="replace").splitlines()[-NUM_LOG_LINES:]
    print(f"-- the end of what {name} wrote, all of it in {log}", *lines, "--", sep="\n", file=sys.stderr)


def _end(process: subprocess.Popen[bytes]) -> None:
    """Ask the server to end; what is left of its group after a while, or after a second Ctrl-C, is killed."""
    try:
        process.terminate()
        process.wait(MAX_END_SECONDS)
    except subprocess.TimeoutExpired:
        print("the server did not end when asked, killing it", file=sys.stderr)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def end_on_sigterm() -> None:
    """Let SIGTERM unwind the program as Ctrl-C does, so that no server outlives it."""

    def leave(number: int, _frame: object) -> NoReturn:
        sys.exit(128 + number)

    signal.signal(signal.SIGTERM, leave)
