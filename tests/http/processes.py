"""Server processes under test: started, listened to, and never left behind."""

import re
import signal
import subprocess
import sys
import threading
from pathlib import Path
from types import TracebackType
from typing import Self

import httpx

ROOT = Path(__file__).parent.parent.parent
PATIENCE_SECONDS = 300  # far beyond what anything here takes: reached only when something hangs


class ServerProcess:
    """`python -m MODULE ARGUMENTS`, with what it says on standard error."""

    def __init__(self, module: str, *arguments: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", module, *arguments],
            cwd=ROOT,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        self._lines: list[str] = []
        self._changed = threading.Condition()
        self._ended = False
        self._reader = threading.Thread(target=self._listen, daemon=True)
        self._reader.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.wait()
        self._reader.join()
        assert self._process.stderr is not None
        self._process.stderr.close()

    def _listen(self) -> None:
        assert self._process.stderr is not None
        for line in self._process.stderr:
            with self._changed:
                self._lines.append(line.rstrip("\n"))
                self._changed.notify_all()
        with self._changed:
            self._ended = True
            self._changed.notify_all()

    @property
    def lines(self) -> list[str]:
        """What it has said so far."""
        with self._changed:
            return list(self._lines)

    def said(self, pattern: str) -> re.Match[str]:
        """Wait for a line that matches."""

        def found() -> re.Match[str] | None:
            return next(filter(None, (re.search(pattern, line) for line in self._lines)), None)

        with self._changed:
            self._changed.wait_for(lambda: found() or self._ended, PATIENCE_SECONDS)
            match = found()
        assert match is not None, f"{pattern!r} was not said:\n" + "\n".join(self._lines)
        return match

    def client(self) -> httpx.Client:
        """A client of it, once it listens."""
        url = self.said(r'event"?[=:]"?loading.*url"?[=:]"?(http://[^\s"]+)')[1]
        return httpx.Client(base_url=url, timeout=PATIENCE_SECONDS)

    def ready_client(self) -> httpx.Client:
        """A client of it, once it serves."""
        self.said(r"blocks .*x .* positions")
        return self.client()

    def send(self, number: signal.Signals) -> None:
        """Send a signal."""
        self._process.send_signal(number)

    def exit_code(self) -> int:
        """Wait for its end."""
        code = self._process.wait(PATIENCE_SECONDS)
        self._reader.join()
        return code
