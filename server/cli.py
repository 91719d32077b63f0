"""The `tidemark` command: what holds for every command of it."""

import os
import signal
import sys
from collections.abc import Sequence

from server.signals import SIGNALLED

INTERRUPTED = SIGNALLED + signal.SIGINT
UNREAD = 1
FIRST = 1  # of a container's processes


def main(argv: Sequence[str] | None = None) -> int:
    """Run `argv` (None: the process's own) and return the exit code. An interrupt shows no traceback."""
    open_what_is_closed()
    heed_signals(os.getpid())
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


def open_what_is_closed() -> None:
    """Let standard streams that were closed lead nowhere, so that every command may read and write them.

    The lowest free number is a closed stream's own: no socket or file gets it, and what is written to the number.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:  # as the interpreter leaves it where the number is free
            number = os.open(os.devnull, os.O_RDWR)
            os.set_inheritable(number, True)  # noqa: FBT003  # the standard library's own
            setattr(sys, name, os.fdopen(number, mode, encoding="utf-8", errors="replace"))


def heed_signals(process: int) -> None:
    """Let SIGTERM and SIGHUP end the first process of a container, which is sent no signal that it has not asked for.

    The server asks for them once it is there; without this, one that came before would be lost and the container
    killed when patience ends. Other processes end by them anyway.
    """
    if process == FIRST:
        for number in (signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, lambda number, _frame: os._exit(SIGNALLED + number))
