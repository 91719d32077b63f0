"""Lines: what a person types, or a pipe brings, as questions. A question may have several lines."""

from collections.abc import Callable

BLOCK = '"""'
GOES_ON = "\\"
FIRST, NEXT = "> ", "… "


def next_question(read: Callable[[str], str]) -> str:
    """One question. `read` shows a prompt and gives a line, and raises EOFError behind the last.

    A line that ends with a backslash goes on with the next; what stands between two `\"\"\"` is one question.

    Raises:
        EOFError: there is none.
    """
    line = read(FIRST)
    if line.lstrip().startswith(BLOCK):
        return _block(line.lstrip().removeprefix(BLOCK), read)
    lines = []
    while line.endswith(GOES_ON):
        lines.append(line.removesuffix(GOES_ON))
        line = _next(read)
    return "\n".join([*lines, line]).strip()


def _block(line: str, read: Callable[[str], str]) -> str:
    lines = []
    while not line.rstrip().endswith(BLOCK):
        lines.append(line)
        try:
            line = read(NEXT)
        except EOFError:
            break
    else:
        lines.append(line.rstrip().removesuffix(BLOCK))
    return "\n".join(lines).strip("\n")


def _next(read: Callable[[str], str]) -> str:
    """The line after one that goes on; at the end of all lines there is none, and the question is whole."""
    try:
        return read(NEXT)
    except EOFError:
        return ""
