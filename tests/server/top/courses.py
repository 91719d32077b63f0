"""Made-up answers of `GET /ledger/{id}/steps`."""

from typing import Any

from server.top.course import Course, read_course

NAME = "chatcmpl-1/0"


def step(number: int, **fields: Any) -> dict[str, Any]:
    """One that computes the position before its number, and accepts a token."""
    return {
        "step": number,
        "time": number / 10,
        "seconds": 0.01,
        "chunk": [number - 1, number],
        "planned": number,
        "computed": number,
        "accepted": number + 1,
        "published": number + 1,
        "tokens": 1,
        "drafted": 0,
        "kept": 0,
        "source": "",
    } | fields


def event(number: int, name: str, time: float, **fields: Any) -> dict[str, Any]:
    return {"number": number, "time": time, "event": name} | fields


def body(**fields: Any) -> dict[str, Any]:
    """A request's steps, of which one sequence is looked at."""
    mine = {"sequence": NAME, "complete": True, "ended": None, "prompt_tokens": 20, "cached_tokens": 16}
    other = mine | {"sequence": "chatcmpl-1/1", "steps": [], "events": []}
    return {"id": "chatcmpl-1", "sequences": [other, mine | {"steps": [], "events": []} | fields]}


def course(**fields: Any) -> Course:
    return read_course(body(**fields), NAME)
