"""Benchmarks as processes of their own."""

import subprocess
import sys
from pathlib import Path


def run(module: str, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """`python -m benchmarks.MODULE ARGUMENTS…`, to its end."""
    command = [sys.executable, "-m", f"benchmarks.{module}", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
