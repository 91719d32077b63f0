"""What stays on a terminal and what is rewritten."""

import io

import pytest

from server.console import Console


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_progress_is_plain_lines_where_nobody_watches() -> None:
    stream = io.StringIO()
    console = Console(stream)

    console.progress("loading a")
    console.progress("loading b")
    console.line("ready")

    assert stream.getvalue() == "loading a\nloading b\nready\n"


def test_a_terminal_sees_one_progress_line_that_a_lasting_line_replaces() -> None:
    stream = Terminal()
    console = Console(stream)

    console.progress("loading a")
    console.progress("loading b")
    console.line("ready")
    console.line("serving")

    assert stream.getvalue() == "\r\x1b[Kloading a\r\x1b[Kloading b\r\x1b[Kready\nserving\n"


def test_a_closed_stream_is_survived() -> None:
    stream = io.StringIO()
    console = Console(stream)
    stream.close()

    console.line("ready")
    console.progress("loading")


@pytest.mark.parametrize("stream", [io.StringIO(), Terminal()])
def test_what_programs_read_has_its_frame_and_nothing_is_rewritten(stream: io.StringIO) -> None:
    console = Console(stream, frame=lambda level, text: f"<{level} {text}>")

    console.progress("loading a")
    console.progress("loading b")
    console.write("a log line\n")
    console.line("ready")
    console.fault("broken")

    lines = ["<info loading a>", "<info loading b>", "a log line", "<info ready>", "<error broken>"]
    assert stream.getvalue().splitlines() == lines


def test_a_person_reads_a_fault_as_any_line() -> None:
    stream = Terminal()
    console = Console(stream)

    console.progress("loading")
    console.fault("broken")

    assert stream.getvalue() == "\r\x1b[Kloading\r\x1b[Kbroken\n"
