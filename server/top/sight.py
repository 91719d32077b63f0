"""Sight: one snapshot of a running server, as `GET /ledger/events` sends it, in values."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from server.top.units import Codes, Table, read_codes, read_tables
from server.top.values import WRONG, Json, NoSight, count_of, counts_of, number_of, text_of


@dataclass(frozen=True, slots=True)
class Info:
    """What does not change while a server runs."""

    model: str
    architecture: str
    max_sequences: int
    max_waiting: int
    num_units: int
    groups: tuple[str, ...]  # the layouts of the cache groups
    widths: tuple[int, ...]  # how many units a block of each takes


@dataclass(frozen=True, slots=True)
class Held:
    """A pool's blocks, or a cache group's, by state; what is free is free for all groups."""

    name: str
    allocated: int
    shared: int
    cached: int


@dataclass(frozen=True, slots=True)
class Pool:
    """The whole pool, its cache groups where there are several, and the slots of recurrent states."""

    capacity: int
    free: int
    whole: Held
    groups: tuple[Held, ...] = ()
    slots: "Pool | None" = None


@dataclass(frozen=True, slots=True)
class Measured:
    """How often something was measured, and the sum of what was."""

    count: int = 0
    sum: float = 0.0


@dataclass(frozen=True, slots=True)
class Drafts:
    """Drafts by one source."""

    drafts: int = 0
    tokens: int = 0
    kept: int = 0


@dataclass(frozen=True, slots=True)
class Sequence:
    """One sequence with its marks; `arrived` is on the clock of the snapshot's `time`."""

    id: str
    request: str
    state: str
    planned: int
    computed: int
    accepted: int
    published: int
    prompt_tokens: int
    output_tokens: int
    cached_tokens: int | None
    max_length: int
    arrived: float
    tables: tuple[Table, ...]


@dataclass(frozen=True, slots=True)
class Rejection:
    """A draft that fell at `position`."""

    sequence: str
    step: int
    position: int
    drafted: int
    kept: int
    source: str


@dataclass(frozen=True, slots=True)
class Sight:
    """The engine at one moment. `info` is there in the first of a connection; `body` is what came."""

    time: float
    uptime: float
    server: str
    info: Info | None
    steps: int
    running: int
    waiting: int
    paused: int
    parked: int
    unlisted: int  # sequences that are there beside `sequences`
    pool: Pool
    units: Codes
    positions: Mapping[str, int]
    preemptions: int
    disconnects: int
    refusals: Mapping[str, int]
    drafts: Mapping[str, Drafts]
    prefix_queries: int
    prefix_hits: int
    seconds: Mapping[str, Measured]
    step_positions: Measured
    first_token: Measured
    gaps: Measured
    sequences: tuple[Sequence, ...]
    rejections: tuple[Rejection, ...]
    body: Json = field(repr=False, compare=False)


def read_sight(body: Json) -> Sight:
    """The values of one snapshot. Raises NoSight."""
    try:
        return _read(body)
    except WRONG as error:
        raise NoSight("what answers does not tell what `tidemark top` shows") from error


def _read(body: Json) -> Sight:
    info = body.get("info")
    return Sight(
        time=number_of(body["time"]),
        uptime=number_of(body["uptime_seconds"]),
        server=text_of(body["server"]),
        info=None if info is None else _info(info),
        steps=int(body["steps"]),
        running=int(body["running"]),
        waiting=int(body["waiting"]),
        paused=int(body["paused"]),
        parked=int(body["parked"]),
        unlisted=sum(_counts(body["unlisted"]).values()),
        pool=_pool(body["pool"]),
        units=read_codes(body["units"]),
        positions=_counts(body["positions"]),
        preemptions=int(body["preemptions"]),
        disconnects=int(body["disconnects"]),
        refusals=_counts(body["refusals"]),
        drafts={
            text_of(name): Drafts(**counts_of(each, "drafts", "tokens", "kept"))
            for name, each in body["drafts"].items()
        },
        prefix_queries=int(body["prefix"]["queries"]),
        prefix_hits=int(body["prefix"]["hits"]),
        seconds={text_of(stage): _measured(each) for stage, each in body["seconds"].items()},
        step_positions=_measured(body["step_positions"]),
        first_token=_measured(body["time_to_first_token"]),
        gaps=_measured(body["inter_token_latency"]),
        sequences=tuple(_sequence(each) for each in body["sequences"]),
        rejections=tuple(_rejection(each) for each in body["rejections"]),
        body=body,
    )


def _info(body: Json) -> Info:
    return Info(
        model=text_of(body["model"]),
        architecture=text_of(body["architecture"]),
        max_sequences=int(body["max_sequences"]),
        max_waiting=int(body["max_waiting"]),
        num_units=int(body["num_units"]),
        groups=tuple(text_of(group["layout"]) for group in body["groups"]),
        widths=tuple(int(group["width"]) for group in body["groups"]),
    )


def _pool(body: Json) -> Pool:
    slots = body.get("slots")
    return Pool(
        int(body["capacity"]),
        int(body["free"]),
        _held("", body),
        tuple(_held(text_of(group["layout"]), group) for group in body.get("groups", ())),
        None if slots is None else _pool(slots),
    )


def _held(name: str, body: Json) -> Held:
    return Held(name, int(body["allocated"]), int(body["shared"]), int(body["cached"]))


def _measured(body: Json) -> Measured:
    return Measured(int(body["count"]), number_of(body["sum"]))


def _counts(body: Json) -> dict[str, int]:
    return {text_of(name): int(count) for name, count in body.items()}


def _sequence(body: Json) -> Sequence:
    marks = counts_of(
        body, "planned", "computed", "accepted", "published", "prompt_tokens", "output_tokens", "max_length"
    )
    return Sequence(
        id=text_of(body["id"]),
        request=text_of(body["request_id"]),
        state=text_of(body["state"]),
        cached_tokens=count_of(body["cached_tokens"]),
        arrived=number_of(body["arrived"]),
        tables=read_tables(body["tables"]),
        **marks,
    )


def _rejection(body: Json) -> Rejection:
    numbers = counts_of(body, "step", "position", "drafted", "kept")
    return Rejection(sequence=text_of(body["sequence"]), source=text_of(body["source"]), **numbers)
