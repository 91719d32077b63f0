"""The `tidemark` command: what holds for every command of it."""

import os
import sys
from collections.abc import Sequence

INTERRUPTED = 130  # 128 and SIGINT's number, as shells say it
UNREAD = 1


def main(argv: Sequence[str] | None = None) -> int:
    """Run `argv` (None: the process's own) and return the exit code. An interrupt shows no traceback."""
    try:
        from server.commands import run  # noqa: PLC0415  # takes half a second, in which an interrupt may come

        code = run(argv)
        sys.stdout.flush()
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        # Whoever read standard output has left, as `head` does. The interpreter flushes it once more when it ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return UNREAD
    return code
