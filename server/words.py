"""Words: errors of a body that was translated name the fields that the client sent."""

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from server.errors import ApiError

Names = Sequence[tuple[re.Pattern[str], str]]  # what a translated field's name is like, and what it was made from


@contextmanager
def in_words_of(names: Names) -> Iterator[None]:
    """Let an error of a translated body name the field that it was made from; the first that fits counts."""
    try:
        yield
    except ApiError as error:
        param = error.body["param"]
        raise error if param is None else error.renamed(name_of(param, names)) from None


def name_of(param: str, names: Names) -> str:
    """What the client calls a field of the translated body."""
    for pattern, name in names:
        if pattern.fullmatch(param):
            return pattern.sub(name, param)
    return param
