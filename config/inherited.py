"""Inherited: what of the environment a process gets that this one starts."""

import os
from collections.abc import Mapping

# How programs, libraries and modules are found, and where a file may be made for a while. Neither keys nor addresses.
NAMES = ("PATH", "LD_LIBRARY_PATH", "PYTHONHOME", "PYTHONPATH", "LANG", "LC_ALL", "TMPDIR")


def inherited(environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """What the process is given."""
    return {name: environ[name] for name in NAMES if name in environ}
