import pytest

from server.terminal.lines import FIRST, NEXT, next_question


def question(*lines: str) -> tuple[str, list[str]]:
    """The first question in these lines, and the prompts that were shown for it."""
    shown: list[str] = []
    left = list(lines)

    def read(prompt: str) -> str:
        shown.append(prompt)
        if not left:
            raise EOFError
        return left.pop(0)

    return next_question(read), shown


@pytest.mark.parametrize(
    ("lines", "want"),
    [
        (["hello", "next"], "hello"),
        (["  hello  "], "hello"),
        ([""], ""),
        (["one\\", "two\\", "three"], "one\ntwo\nthree"),
        (["one\\"], "one"),
        (['"""', "one", "", "two", '"""', "next"], "one\n\ntwo"),
        (['"""one', 'two"""'], "one\ntwo"),
        (['"""one"""'], "one"),
        (['""""""'], ""),
        (['"""', "one"], "one"),
        (['say "hi"'], 'say "hi"'),
        (['"""', "one\\", '"""'], "one\\"),
    ],
)
def test_a_question_may_have_several_lines(lines: list[str], want: str) -> None:
    assert question(*lines)[0] == want


def test_lines_that_go_on_have_another_prompt() -> None:
    assert question("one\\", "two")[1] == [FIRST, NEXT]
    assert question('"""', '"""')[1] == [FIRST, NEXT]


def test_behind_the_last_line_there_is_no_question() -> None:
    with pytest.raises(EOFError):
        question()
