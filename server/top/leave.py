"""Leave: a terminal that is put back where a signal ends the process, which runs no clean-up."""

import os
import select
import signal
import termios
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType

from server.signals import SIGNALLED

SIGNALS = (signal.SIGTERM, signal.SIGHUP)
BACK = b"\x1b[0m\x1b[?25h\x1b[?1049l"  # plain text, the cursor, and the screen that was there before


@contextmanager
def put_back_at_a_signal(source: int, out: int) -> Iterator[None]:
    """While the block lasts, SIGTERM and SIGHUP end the process, with the terminal at `source` and `out` as it is now.

    In the handler itself: an exception could come within a clean-up, as a second one would. What is ignored stays so.
    """
    before = termios.tcgetattr(source)

    def end(number: int, _frame: FrameType | None) -> None:
        with suppress(OSError, termios.error):  # it may be gone
            termios.tcsetattr(source, termios.TCSANOW, before)
            if select.select([], [out], [], 0)[1]:  # one that is stopped would keep the process
                os.write(out, BACK)
        os._exit(SIGNALLED + number)

    heard = [number for number in SIGNALS if signal.getsignal(number) is not signal.SIG_IGN]
    actions = {number: signal.signal(number, end) for number in heard}
    try:
        yield
    finally:
        for number, action in actions.items():
            signal.signal(number, action)
