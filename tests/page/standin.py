"""A stand-in for the server: the page's own files, and data as a test writes it."""

import threading
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import anyio
import orjson
import uvicorn
from fastapi import FastAPI
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse

from server.listen import bind
from server.routes import pages

Json = dict[str, Any]  # JSON by its nature


@dataclass
class Script:
    """What is answered: snapshots, then silence until the client leaves; an answer's chunks; stories by request.

    While `open` more chunks may be added.
    """

    snapshots: list[Json]
    chunks: list[Json] = field(default_factory=list)
    stories: Mapping[str, list[Json]] = field(default_factory=dict)
    units: Mapping[str, Json] = field(default_factory=dict)
    watchers: int = 0
    open: bool = False


def snapshot(*sequences: Json, codes: str, width: int = 1, groups: int = 1, slots: str | None = None) -> Json:
    """A whole one, of a pool whose units have these codes."""
    counts = [sum(1 for code in codes if code != "0" and (ord(code) - 49) % 3 == state) for state in range(3)]
    layouts = [{"layout": f"attention of kind {number}", "width": width} for number in range(groups)]
    return {
        "whole": True,
        "time": 10.0,
        "server": "ready",
        "info": {
            "model": "made-up",
            "layout": "full attention",
            "block_size": 16,
            "num_units": len(codes),
            "unit_bytes": 4096,
            "groups": layouts,
            "num_slots": len(slots or ""),
            "show_text": False,
        },
        "steps": 1,
        "running": len(sequences),
        "waiting": sum(1 for one in sequences if one["state"] == "waiting"),
        "paused": 0,
        "parked": 0,
        "unlisted": {"running": 0, "waiting": 0, "paused": 0, "parked": 0},
        "pool": {
            "block_size": 16,
            "capacity": len(codes),
            "free": codes.count("0"),
            "allocated": counts[0],
            "shared": counts[1],
            "cached": counts[2],
        },
        "positions": dict.fromkeys(("planned", "computed", "accepted", "published", "rejected", "recomputed"), 0),
        "drafts": {},
        "prefix": {"queries": 100, "hits": 25},
        "units": {"states": codes},
        "sequences": list(sequences),
        "rejections": [],
        "ended": [],
        **({} if slots is None else {"slots": {"states": slots}}),
    }


def sequence(id: str, *tables: list[int], state: str = "running", computed: int = 40, **more: object) -> Json:
    """One that decodes, whose tables hold these units from the first block on."""
    request, _, choice = id.rpartition("/")
    return {
        "id": id,
        "request_id": request,
        "choice": int(choice),
        "state": state,
        "planned": computed + 1,
        "computed": computed,
        "accepted": computed + 1,
        "published": computed,
        "prompt_tokens": 24,
        "output_tokens": computed - 23,
        "cached_tokens": 16,
        "max_length": 100,
        "priority": 0,
        "arrived": 8.5,
        "tables": [{"first": 0, "kept": 0, "units": units} for units in tables],
        **more,
    }


@contextmanager
def standing_in(script: Script) -> Iterator[str]:
    """Serve it on a free port: its URL."""
    listener = bind("127.0.0.1", 0)
    config = uvicorn.Config(_app(script), log_config=None, lifespan="off", timeout_graceful_shutdown=1)
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join()


def _app(script: Script) -> FastAPI:
    app = FastAPI()
    app.include_router(pages.router)

    @app.get("/ledger/events")
    async def events() -> Response:
        return StreamingResponse(_frames(script), media_type="text/event-stream")

    @app.get("/ledger/units/{unit}")
    async def unit(unit: str) -> Response:
        return JSONResponse(script.units.get(unit, {"state": "free", "positions": None}))

    @app.get("/ledger/{id}/steps")
    async def steps(id: str, after: int) -> Response:
        if id not in script.stories:
            return JSONResponse({"error": {"message": "no such request"}}, 404)
        later = [
            story | {"steps": [step for step in story["steps"] if step["step"] > after]} for story in script.stories[id]
        ]
        return JSONResponse({"id": id, "sequences": later})

    @app.post("/v1/chat/completions")
    async def chat(request: Request) -> Response:
        await request.body()
        return StreamingResponse(_answer(script), media_type="text/event-stream")

    return app


async def _answer(script: Script) -> AsyncIterator[bytes]:
    sent = 0
    while script.open or sent < len(script.chunks):
        for chunk in script.chunks[sent:]:
            yield b"data: " + orjson.dumps(chunk) + b"\n\n"
            sent += 1
        await anyio.sleep(0.02)
    yield b"data: [DONE]\n\n"


async def _frames(script: Script) -> AsyncIterator[bytes]:
    script.watchers += 1
    try:
        sent = 0
        while True:
            for snapshot in script.snapshots[sent:]:
                yield b"event: snapshot\ndata: " + orjson.dumps(snapshot) + b"\n\n"
                sent += 1
            await anyio.sleep(0.05)
    finally:
        script.watchers -= 1
