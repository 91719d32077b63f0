"""The ledger as it moves, over HTTP."""

import asyncio
from contextlib import ExitStack
from dataclasses import replace

import httpx
import orjson
import pytest

from engine.course import Event, Moment
from engine.errors import SlowReader
from engine.look import Hold, UnitView
from engine.stats import StepRecord, StepRow
from server.lookout import MAX_WATCHERS
from server.service import Service
from tests.fakes import INFO, FakeEngine, make_service, make_settings
from tests.http.clients import Json, client_of, frames_of, listening
from tests.parts import a_request
from tests.server.render.sights import Watcher

pytestmark = pytest.mark.anyio
STEP = StepRecord(3, (StepRow("chatcmpl-1/0", 5, 5, 6, 5, (0, 5), (104, 105), ()),))


async def test_the_first_event_is_the_whole_ledger() -> None:
    engine = FakeEngine()
    engine.open(a_request((2, 3)))

    async with client_of(make_service(engine)) as client:
        answer = await client.get("/v1/ledger/events", params={"count": 1})
        ledger = (await client.get("/ledger")).json()

    assert answer.headers["content-type"].startswith("text/event-stream")
    assert answer.headers["cache-control"] == "no-cache"
    snapshot, end = frames_of(answer.text)
    body = orjson.loads(snapshot["data"])
    watcher = Watcher()
    watcher.apply_frame(f"event: snapshot\ndata: {snapshot['data']}\n\n".encode())
    assert (len(watcher.units), watcher.tables) == (8, {"request/0": [(0, [0, 3])]})
    assert end == {"event": "end", "data": '{"reason":"count"}'}
    for key in ("steps", "running", "waiting", "paused", "parked", "pool", "positions"):
        assert body[key] == ledger[key]


@pytest.mark.parametrize(
    ("query", "field", "numbers"),
    [
        ("every=0.1", "every", "0.2 to 60"),
        ("every=61", "every", "0.2 to 60"),
        ("every=nan", "every", "0.2 to 60"),
        ("every=", "every", "0.2 to 60"),
        ("count=0", "count", "at least 1"),
        ("count=x", "count", "at least 1"),
    ],
)
async def test_times_and_counts_out_of_range_are_refused_with_the_numbers(query: str, field: str, numbers: str) -> None:
    async with client_of(make_service()) as client:
        answer = await client.get(f"/ledger/events?{query}")

    error = answer.json()["error"]
    assert (answer.status_code, error["param"]) == (400, field)
    assert numbers in error["message"]


async def test_a_watcher_too_many_is_told_to_come_back() -> None:
    service = make_service()
    engine = service.loaded().engine
    with ExitStack() as places:
        for _ in range(MAX_WATCHERS):
            places.enter_context(service.lookout.watching(engine))
        async with client_of(service) as client:
            answer = await client.get("/ledger/events")

    assert (answer.status_code, answer.json()["error"]["code"]) == (503, "too_many_watchers")
    assert int(answer.headers["retry-after"]) > 0


@pytest.mark.parametrize("path", ["/ledger/events", "/ledger/x/steps", "/ledger/units/0", "/ledger/slots/0"])
async def test_watching_needs_a_key_and_a_model(path: str) -> None:
    async with client_of(make_service(settings=make_settings(api_keys=("secret",)))) as client:
        keyless = await client.get(path)
    async with client_of(Service(make_settings())) as client:
        loading = await client.get(path)

    assert keyless.status_code == 401
    assert (loading.status_code, loading.json()["error"]["code"]) == (503, "model_loading")


async def test_steps_are_told_of_a_request_that_has_ended_without_text() -> None:
    engine = FakeEngine()
    service = make_service(engine)

    async with client_of(service) as client:
        with service.lookout.watching(engine):
            engine.observers[0](STEP)
            answer = (await client.get("/v1/ledger/chatcmpl-1/steps")).json()
            later = (await client.get("/ledger/chatcmpl-1/steps?after=3")).json()
            unknown = await client.get("/ledger/chatcmpl-2/steps")
            wrong = await client.get("/ledger/chatcmpl-1/steps?after=x")

    [timeline] = answer["sequences"]
    assert (answer["id"], timeline["sequence"], timeline["complete"]) == ("chatcmpl-1", "chatcmpl-1/0", True)
    assert [(step["step"], step["tokens"]) for step in timeline["steps"]] == [(3, 2)]
    assert "chosen" not in timeline["steps"][0]
    assert later["sequences"][0]["steps"] == []
    assert (unknown.status_code, unknown.json()["error"]["code"]) == (404, "request_not_found")
    assert (wrong.status_code, wrong.json()["error"]["param"]) == (400, "after")


async def test_a_request_that_never_ran_has_a_beginning_and_an_end() -> None:
    engine = FakeEngine()
    service = make_service(engine)

    async with client_of(service) as client:
        with service.lookout.watching(engine):
            engine.hearers[0]("chatcmpl-1/0", Moment(Event.QUEUED, 1.0))
            waits = (await client.get("/ledger/chatcmpl-1/steps")).json()
            ended = Moment(Event.ENDED, 2.5, reason="error", error=SlowReader(limit_seconds=1.0))
            engine.hearers[0]("chatcmpl-1/0", ended)
            gone = (await client.get("/ledger/chatcmpl-1/steps?after=7")).json()

    assert waits["sequences"][0]["ended"] is None
    assert gone["sequences"] == [
        {
            "sequence": "chatcmpl-1/0", "complete": True, "ended": "error", "prompt_tokens": None,
            "cached_tokens": None, "steps": [],
            "events": [
                {"number": 1, "time": 1.0, "event": "queued"},
                {"number": 2, "time": 2.5, "event": "ended", "reason": "error", "error": "slow_reader"},
            ],
        }
    ]  # fmt: skip


async def test_an_operator_may_let_text_be_seen() -> None:
    engine = FakeEngine()
    engine.held[2] = UnitView(2, (2,), Hold.CACHED, 0, (16, 32), (), (104, 105))
    service = make_service(engine, settings=make_settings(show_text=True))

    async with client_of(service) as client:
        with service.lookout.watching(engine):
            engine.observers[0](STEP)
            steps = (await client.get("/ledger/chatcmpl-1/steps")).json()
        unit = (await client.get("/ledger/units/2")).json()

    assert steps["sequences"][0]["steps"][0]["chosen"] == {"tokens": [104, 105], "text": "hi"}
    assert (unit["text"], unit["positions"], unit["state"]) == ("hi", [16, 32], "cached")


async def test_places_are_told_and_those_that_are_not_there_are_404() -> None:
    engine = FakeEngine(info=replace(INFO, cache=replace(INFO.cache, num_slots=1)))
    engine.held[0] = UnitView(0, (0,), Hold.ALLOCATED, None, (0, 7), ("one/0",), ())

    async with client_of(make_service(engine)) as client:
        unit = (await client.get("/ledger/units/7")).json()
        slot = (await client.get("/ledger/slots/0")).json()
        none = [await client.get(f"/ledger/{path}") for path in ("units/8", "units/-1", "units/x", "slots/1")]

    assert unit["state"] == "free"
    assert "text" not in unit
    assert slot == {"slot": 0, "state": "allocated", "position": 7, "owners": ["one/0"]}
    assert [answer.status_code for answer in none] == [404] * 4
    assert [answer.json()["error"]["code"] for answer in none] == [*["unit_not_found"] * 3, "slot_not_found"]
    assert "there are 8" in none[0].json()["error"]["message"]


async def test_a_watcher_follows_over_a_real_connection_and_hears_the_end() -> None:
    engine = FakeEngine()
    service = make_service(engine)
    watcher = Watcher()
    reasons: list[Json] = []

    async def watch(url: str) -> None:
        async with (
            httpx.AsyncClient(base_url=url) as client,
            client.stream("GET", "/ledger/events?every=0.2") as answer,
        ):
            async for line in answer.aiter_lines():
                if line.startswith("data: "):
                    body = orjson.loads(line.removeprefix("data: "))
                    if "reason" in body:
                        reasons.append(body)
                    else:
                        watcher.apply(body)
                        seen.set()

    seen = asyncio.Event()
    async with listening(service) as url, asyncio.TaskGroup() as group:
        group.create_task(watch(url))
        await seen.wait()
        seen.clear()
        engine.open(a_request((2, 3)))
        await seen.wait()
        service.fail()

    assert watcher.units == "10000000"
    assert reasons == [{"reason": "engine_stopped"}]
