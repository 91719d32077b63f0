import os
import termios
import threading

import pytest

from server.top import keys as module
from server.top.keys import Keys, keys_in

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


def test_a_key_that_comes_in_pieces_is_one_key(terminal: tuple[int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "ESCAPE_SECONDS", PATIENCE_SECONDS)
    person, program = terminal
    keys = Keys(program)

    with keys.pressed():
        os.write(person, b"\x1b")
        later = threading.Timer(0.05, lambda: [os.write(person, piece) for piece in (b"[", b"1;5", b"A")])
        later.start()
        pressed = keys.wait(PATIENCE_SECONDS)
        later.join()

    assert list(keys_in(pressed)) == ["up"]


def test_many_keys_at_once_are_all_of_them(terminal: tuple[int, int]) -> None:
    person, program = terminal
    keys, names = Keys(program), list[str]()

    with keys.pressed():
        os.write(person, b"\x1b[C" * 500)
        while len(names) < 500:
            names += keys_in(keys.wait(PATIENCE_SECONDS))

    assert names == ["right"] * 500


def test_escape_alone_is_a_key(terminal: tuple[int, int]) -> None:
    person, program = terminal
    keys = Keys(program)

    with keys.pressed():
        os.write(person, b"\x1b")
        assert list(keys_in(keys.wait(PATIENCE_SECONDS))) == ["escape"]


@pytest.mark.parametrize(
    ("pressed", "names"),
    [
        ("", []),
        ("qJ", ["q", "J"]),
        ("\x1b", ["escape"]),
        ("\x1b[A\x1b[B\x1b[C\x1b[D", ["up", "down", "right", "left"]),
        ("\x1bOA\x1bOH\x1bOF", ["up", "home", "end"]),
        ("\x1b[1~\x1b[4~\x1b[5~\x1b[6~", ["home", "end", "page up", "page down"]),
        ("\x1b[1;5A", ["up"]),
        ("\x1b[Z\x1b[2~\x1b[15~x", ["x"]),
        ("\r\n \x7f\b", ["enter", "enter", "space", "backspace", "backspace"]),
        ("\x1b\x1b[A", ["escape", "up"]),
        ("x\x1b[1;5", ["x"]),
        ("\ufffd", ["\ufffd"]),
    ],
)
def test_what_a_terminal_sends_is_taken_apart_into_keys(pressed: str, names: list[str]) -> None:
    assert list(keys_in(pressed)) == names
