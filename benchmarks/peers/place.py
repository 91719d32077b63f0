"""Where peers are installed, what makes one installation fit this machine, and how its steps are run."""

import hashlib
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks.conditions import ROOT, flags_of, read

PEERS = ROOT / ".peers"
PIP = (sys.executable, "-m", "pip", "--disable-pip-version-check")


class PeerMissing(Exception):
    """A peer is not there and can't be installed; the message says what to do."""


def fingerprint() -> str:
    """Changes with what the processor can do: what was built for one may end with an illegal instruction on another."""
    return hashlib.sha256(" ".join(sorted(flags_of(read("/proc/cpuinfo")))).encode()).hexdigest()[:8]


def install_step(peer: str, command: Sequence[str | Path]) -> None:
    """Run one command of an installation; what it writes goes to standard error.

    Raises:
        PeerMissing: where it can't be started or fails.
    """
    print("+", *command, file=sys.stderr, flush=True)
    try:
        subprocess.run(command, check=True, stdin=subprocess.DEVNULL, stdout=sys.stderr)
    except (OSError, subprocess.CalledProcessError) as error:
        raise PeerMissing(f"{peer} could not be installed: {error}") from None
