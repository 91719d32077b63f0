"""Runs tests over a tree, in a process of their own, until one fails."""

import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

PLUGIN = "tests.mutants.begun"
BEGUN = Path("tests/mutants/begun.txt")  # written by the plugin, which is the tree's own
PYTEST = (sys.executable, "-B", "-m", "pytest", "-p", "no:cacheprovider", "-p", PLUGIN)
LIMIT_SECONDS = 600  # a mutant that hangs is found as well
BRIEFLY = ("-x", "-q", "--tb=line", "--show-capture=no")
TESTS_FAILED = (1, 2)  # pytest's codes for a test that fails, and for one that can't be read
NOTHING_RAN = (4, 5)  # and for a test that it does not know, and for none


class NothingRan(Exception):
    """There is no such test."""


@dataclass(frozen=True, slots=True)
class Failure:
    """How tests failed: `test`, the one that was begun last, or whatever came before the first."""

    test: str | None
    how: str

    @property
    def told(self) -> str:
        """The failure in a line."""
        return self.how if self.test is None else f"{self.test} {self.how}"


def first_failure(root: Path, arguments: Sequence[str], limit_seconds: float = LIMIT_SECONDS) -> Failure | None:
    """What fails first of the tests that `arguments` name, over the tree at `root`; None if all pass.

    Raises:
        NothingRan: the arguments name no test, or one that is not there.
    """
    begun = root / BEGUN
    begun.unlink(missing_ok=True)
    how = _how_they_fail(root, arguments, limit_seconds)
    if how is None:
        return None
    return Failure(begun.read_text(encoding="utf-8") if begun.exists() else None, how)


def _how_they_fail(root: Path, arguments: Sequence[str], limit_seconds: float) -> str | None:
    command = (*PYTEST, *BRIEFLY, *arguments)
    try:
        done = subprocess.run(command, cwd=root, capture_output=True, text=True, timeout=limit_seconds, check=False)
    except subprocess.TimeoutExpired:
        return f"does not end within {limit_seconds} seconds"
    if done.returncode == 0:
        return None
    if done.returncode in NOTHING_RAN:
        raise NothingRan(done.stdout + done.stderr)
    if done.returncode < 0:  # native code that reads what is not there
        return f"dies of {signal.Signals(-done.returncode).name}"
    assert done.returncode in TESTS_FAILED, done.stdout + done.stderr
    return "fails"
