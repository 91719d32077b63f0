"""A stall is one line, and its end another."""

import asyncio
import io
import logging

import pytest

from server.logs import KeyValueFormatter, Log
from server.stalls import tell_stalls

pytestmark = pytest.mark.anyio


class Scripted:
    """Stalls as told, a look after another; the last look is the end."""

    def __init__(self, *looks: bool) -> None:
        self._looks = iter(looks)

    @property
    def stalled(self) -> bool:
        stalled = next(self._looks, None)
        if stalled is None:
            raise EOFError
        return stalled


async def events(*looks: bool) -> list[str]:
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(KeyValueFormatter())
    logger = logging.Logger("tidemark", logging.INFO)
    logger.addHandler(handler)

    with pytest.raises(EOFError):
        await asyncio.wait_for(tell_stalls(Scripted(*looks), Log(logger), look_seconds=0), None)

    return [line.split(" ", 1)[1] for line in stream.getvalue().splitlines()]


async def test_each_stall_is_one_line_however_long_it_lasts() -> None:
    assert await events(False, True, True, True) == ["level=warning event=stalled"]


async def test_a_stall_that_is_over_is_one_more() -> None:
    stalled, recovered = "level=warning event=stalled", "level=info event=recovered"

    assert await events(True, False, False, True, False) == [stalled, recovered] * 2


async def test_nothing_is_said_of_an_engine_that_runs() -> None:
    assert await events(False, False, False) == []
