import os
import termios
import threading

import pytest

from server.top.keys import Keys

PATIENCE_SECONDS = 60.0


def test_keys_come_one_by_one_and_the_terminal_is_as_before(terminal: tuple[int, int]) -> None:
    person, program = terminal
    keys, before = Keys(program), termios.tcgetattr(program)

    with keys.pressed():
        os.write(person, b"p")
        pressed = keys.wait(PATIENCE_SECONDS)

    assert pressed == "p"
    assert termios.tcgetattr(program) == before


def test_a_wait_ends_without_a_key(terminal: tuple[int, int]) -> None:
    assert Keys(terminal[1]).wait(0.0) == ""


def test_a_wait_ends_when_it_is_woken(terminal: tuple[int, int]) -> None:
    keys = Keys(terminal[1])
    thread = threading.Timer(0.01, keys.wake)
    thread.start()

    assert keys.wait(PATIENCE_SECONDS) == ""
    thread.join()


def test_a_program_that_does_not_look_can_be_woken_for_ever(terminal: tuple[int, int]) -> None:
    keys = Keys(terminal[1])

    for _ in range(100_000):
        keys.wake()

    assert keys.wait(PATIENCE_SECONDS) == ""


def test_a_terminal_that_is_gone_is_told() -> None:
    reads, writes = os.pipe()
    os.close(writes)

    with pytest.raises(EOFError):
        Keys(reads).wait(PATIENCE_SECONDS)

    os.close(reads)
