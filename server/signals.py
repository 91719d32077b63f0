"""Signals: which of them ask a process to end, and what comes of a terminal that closes."""

import signal
from collections.abc import Callable, Sequence

SIGNALLED = 128  # and the signal's number, as shells say it


def endings() -> Sequence[signal.Signals]:
    """The signals that ask for the end. That the terminal has closed is one, unless `nohup` keeps it away."""
    kept_away = signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    return (signal.SIGTERM, signal.SIGINT) if kept_away else (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


def once_for_a_terminal(take: Callable[[int], None]) -> Callable[[int], None]:
    """What takes each signal but a SIGHUP behind a SIGHUP: a terminal that closes may send it twice.

    By its shell and by the system.
    """
    signals: set[int] = set()

    def heard(number: int) -> None:
        again = number in signals
        signals.add(number)
        if not (again and signals == {signal.SIGHUP}):
            take(number)

    return heard
