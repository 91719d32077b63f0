import os
import pty
import signal
import termios
import tty

import pytest

from server.top.leave import BACK, put_back_at_a_signal
from tests.hangups import hangups


@pytest.fixture
def codes(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The exit codes with which the process would have ended."""
    codes: list[int] = []
    monkeypatch.setattr(os, "_exit", codes.append)
    return codes


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
@pytest.mark.usefixtures("hangups_heard")
def test_a_signal_ends_the_process_with_the_terminal_as_it_was(
    number: signal.Signals, terminal: tuple[int, int], codes: list[int]
) -> None:
    person, program = terminal
    before = termios.tcgetattr(program)

    with put_back_at_a_signal(program, program):
        tty.setcbreak(program)
        os.kill(os.getpid(), number)

    assert codes == [128 + number]
    assert termios.tcgetattr(program) == before
    assert os.read(person, 100) == BACK


@pytest.mark.usefixtures("hangups_heard")
def test_a_terminal_that_is_gone_keeps_no_process(codes: list[int]) -> None:
    person, program = pty.openpty()

    with put_back_at_a_signal(program, program):
        os.close(person)
        os.kill(os.getpid(), signal.SIGHUP)

    os.close(program)
    assert codes == [129]


@pytest.mark.usefixtures("hangups_heard")
def test_a_terminal_that_is_stopped_keeps_no_process(terminal: tuple[int, int], codes: list[int]) -> None:
    person, program = terminal
    termios.tcflow(program, termios.TCOOFF)

    with put_back_at_a_signal(program, program):
        os.kill(os.getpid(), signal.SIGTERM)

    assert codes == [143]
    os.set_blocking(person, False)
    with pytest.raises(BlockingIOError):
        os.read(person, 100)


def test_afterwards_signals_do_what_they_did(terminal: tuple[int, int]) -> None:
    before = signal.getsignal(signal.SIGTERM)

    with put_back_at_a_signal(terminal[1], terminal[1]):
        pass

    assert signal.getsignal(signal.SIGTERM) is before


def test_under_nohup_a_hangup_does_nothing(terminal: tuple[int, int]) -> None:
    with hangups(signal.SIG_IGN), put_back_at_a_signal(terminal[1], terminal[1]):
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
