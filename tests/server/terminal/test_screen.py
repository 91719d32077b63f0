import io

from server.terminal.screen import Screen


def screen(*, is_terminal: bool = True) -> tuple[Screen, io.StringIO]:
    out = io.StringIO()
    return Screen(out, is_terminal=is_terminal), out


def test_an_answer_is_written_as_it_comes_and_its_line_is_ended_once() -> None:
    shown, out = screen()

    shown.say("a")
    shown.say("b")
    assert out.getvalue() == "ab"
    shown.end()
    shown.end()

    assert out.getvalue() == "ab\n"


def test_an_answer_that_ends_its_line_gets_no_empty_one() -> None:
    shown, out = screen()

    shown.say("a\n")
    shown.end()

    assert out.getvalue() == "a\n"


def test_a_model_can_not_drive_the_terminal() -> None:
    shown, out = screen()

    shown.say("a\x1b[2Jb\x07\r\tc\x9b\x7f\nd日本")
    shown.say("\x07")

    assert out.getvalue() == "a[2Jb\tc\nd日本"


def test_thoughts_are_dim_and_before_the_answer() -> None:
    shown, out = screen()

    shown.think("h")
    shown.think("m\x1b")
    shown.say("so")
    shown.end()

    assert out.getvalue() == "\x1b[2mhm\x1b[0m\nso\n"


def test_thoughts_alone_end_their_line() -> None:
    shown, out = screen()

    shown.think("hm\n")
    shown.end()

    assert out.getvalue() == "\x1b[2mhm\n\x1b[0m\n"


def test_lines_and_notes_begin_at_the_start_of_a_line() -> None:
    shown, out = screen()

    shown.say("a")
    shown.line("asked for")
    shown.say("b")
    shown.note("by the way")

    assert out.getvalue() == "a\nasked for\nb\n\x1b[2mby the way\x1b[0m\n"


def test_a_program_reads_answers_and_what_was_asked_for_alone() -> None:
    shown, out = screen(is_terminal=False)

    shown.think("hm")
    shown.say("a")
    shown.note("by the way")
    shown.line("asked for")

    assert out.getvalue() == "a\nasked for\n"
