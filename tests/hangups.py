"""What processes that a test starts do when their terminal closes, whatever the tests themselves were started with."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def hangups(action: signal.Handlers) -> Iterator[None]:
    """Start processes that are ended by SIGHUP (SIG_DFL), or to which `nohup` lets none come (SIG_IGN)."""
    before = signal.signal(signal.SIGHUP, action)
    try:
        yield
    finally:
        signal.signal(signal.SIGHUP, before)
