"""Made-up snapshots, as `GET /ledger/events` sends them."""

from typing import Any

from server.top.sight import Sight, read_sight

STAGES = ("execute", "plan", "commit", "publish", "model")


def sequence(id: str = "chatcmpl-1/0", **fields: Any) -> dict[str, Any]:
    return {
        "id": id,
        "request_id": id.partition("/")[0],
        "choice": 0,
        "state": "running",
        "planned": 31,
        "computed": 30,
        "accepted": 31,
        "published": 31,
        "prompt_tokens": 20,
        "output_tokens": 11,
        "cached_tokens": 16,
        "max_length": 100,
        "priority": 0,
        "arrived": 90.0,
        "tables": [{"first": 0, "kept": 0, "units": [1, 2]}],
    } | fields


def rejection(number: int = 1) -> dict[str, Any]:
    numbers = {"number": number, "step": 40 + number, "position": 25, "drafted": 8, "kept": 3}
    return {"sequence": "chatcmpl-1/0", "source": "lookup", **numbers}


def body(*, whole: bool = False, **fields: Any) -> dict[str, Any]:
    """A snapshot in which something is going on; `whole` is the first of a connection."""
    info: dict[str, Any] = {"model": "tiny", "architecture": "LlamaForCausalLM", "max_sequences": 16, "max_waiting": 64}
    info |= {"block_size": 16, "num_units": 4, "groups": [{"layout": "full attention", "width": 1}]}
    return {
        "whole": whole,
        "time": 100.0,
        "uptime_seconds": 3725.0,
        "server": "ready",
        **({"info": info} if whole else {}),
        "steps": 40,
        "running": 1,
        "waiting": 2,
        "paused": 0,
        "parked": 0,
        "unlisted": {"running": 0, "waiting": 0, "paused": 0, "parked": 0},
        "pool": {
            "block_size": 16,
            "capacity": 100,
            "free": 40,
            "allocated": 30,
            "shared": 10,
            "cached": 20,
            "tail_positions": 3,
        },
        "positions": {
            "planned": 300,
            "computed": 280,
            "accepted": 60,
            "published": 60,
            "rejected": 20,
            "recomputed": 0,
        },
        "preemptions": 1,
        "disconnects": 4,
        "refusals": {"QueueFull": 3},
        "rollbacks": {},
        "drafts": {"lookup": {"drafts": 4, "tokens": 20, "kept": 10}},
        "prefix": {"queries": 100, "hits": 62},
        "seconds": {stage: {"count": 40, "sum": 2.0} for stage in STAGES},
        "step_positions": {"count": 40, "sum": 280.0},
        "time_to_first_token": {"count": 2, "sum": 0.4},
        "inter_token_latency": {"count": 50, "sum": 2.5},
        "queue": {"count": 2, "sum": 0.01},
        "units": {"states": "0123"},
        "sequences": [sequence()],
        "rejections": [],
    } | fields


def sight(*, whole: bool = False, **fields: Any) -> Sight:
    return read_sight(body(whole=whole, **fields))
