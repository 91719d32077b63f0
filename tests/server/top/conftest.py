import os
import pty
from collections.abc import Iterator

import pytest


@pytest.fixture
def terminal() -> Iterator[tuple[int, int]]:
    """A person's end, and the program's."""
    person, program = pty.openpty()
    yield person, program
    for end in (person, program):
        os.close(end)
