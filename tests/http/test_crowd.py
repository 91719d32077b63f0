"""More at once than the queue holds: the rest is refused at once, and what was taken is answered."""

import asyncio
from itertools import islice
from pathlib import Path

import httpx
import pytest

from tests.http.processes import ServerProcess
from tests.http.test_metrics import sample, wait_until_quiet

SEATS, PLACES, CROWD = 4, 8, 200
pytestmark = pytest.mark.anyio


async def test_of_200_at_once_those_with_a_place_are_answered_and_the_others_are_told_when_to_come_back(
    tmp_path: Path,
) -> None:
    hold = tmp_path / "hold"
    hold.touch()
    flags = ("--hold", str(hold), "--max-sequences", str(SEATS), "--max-waiting", str(PLACES))
    with ServerProcess("tests.http.scripted", *flags) as server, server.ready_client() as client:
        answers = await all_at_once(str(client.base_url), hold)
        text = wait_until_quiet(client)

    taken = [answer for answer in answers if answer.status_code == 200]
    refused = [answer for answer in answers if answer.status_code == 429]
    assert len(taken) + len(refused) == CROWD
    assert PLACES <= len(taken) <= SEATS + PLACES
    assert all(answer.json()["usage"]["completion_tokens"] == 3 for answer in taken)
    assert all(int(answer.headers["retry-after"]) > 0 for answer in refused)
    assert {answer.json()["error"]["code"] for answer in refused} == {"rate_limit_exceeded"}
    assert sample(text, "tidemark_admission_refusals_total") == len(refused)
    assert sample(text, "tidemark_kv_blocks", state="allocated") == 0


def lift(hold: Path) -> None:
    """Let the model go on."""
    hold.unlink()


async def all_at_once(url: str, hold: Path) -> list[httpx.Response]:
    """Every answer of the crowd. The model waits until the last one has been refused."""
    limits = httpx.Limits(max_connections=CROWD)
    async with httpx.AsyncClient(base_url=url, timeout=300, limits=limits) as client, asyncio.TaskGroup() as group:
        body = {"model": "scripted", "prompt": "hi", "max_tokens": 3}
        tasks = [group.create_task(client.post("/v1/completions", json=body)) for _ in range(CROWD)]
        for answer in islice(asyncio.as_completed(tasks), CROWD - SEATS - PLACES):
            assert (await answer).status_code == 429
        lift(hold)
    return [task.result() for task in tasks]
