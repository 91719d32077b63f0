"""Metrics: one collector over the engine's snapshot and the server's own counts."""

import re
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import accumulate, pairwise

from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.core import Metric
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, choose_encoder, generate_latest
from prometheus_client.openmetrics.exposition import CONTENT_TYPE_LATEST as CONTENT_TYPE_OPENMETRICS
from prometheus_client.registry import Collector

from engine.errors import RequestRefused
from engine.stats import SECONDS, BlockCounts, CacheInfo, DraftCounts, Histogram, PaceView, Snapshot, Stats
from engine.step import GUESSING
from server.families import Families, usage_ratio
from server.recorder import RequestsView
from server.service import State
from server.vllm_metrics import vllm_families

# What a scrape shows at zero before it first happens.
STAGES = ("plan", "execute", "model", "masks", "sample", "commit", "publish")
ROLLBACKS = ("preempted", "parked", "step_failed", "stale", "rejected")
GRAMMARS = ("compiled", "cached", "refused")
DRAFTERS = ("prompt_lookup", "prediction", "draft_model", "grammar")


@dataclass(frozen=True, slots=True)
class Reading:
    """All that one scrape shows, read at one moment; `cache` and `snapshot` are None while the model loads.

    `guesses`: there is a draft model.
    """

    model: str
    state: State
    cache: CacheInfo | None
    snapshot: Snapshot | None
    requests: RequestsView
    guesses: bool = False


class Metrics:
    """Renders what `read` returns; `vllm_names` adds the names that vLLM's dashboards look for.

    It does so on the event loop's thread, whose processor time is `clock`.
    """

    def __init__(
        self, read: Callable[[], Reading], *, vllm_names: bool, clock: Callable[[], float] = time.thread_time
    ) -> None:
        self._registry = CollectorRegistry()
        self._registry.register(_Collector(read, clock, vllm_names=vllm_names))
        ProcessCollector(registry=self._registry)

    def render(self, accept: str) -> tuple[bytes, str]:
        """The exposition in the format that the Accept header asks for, and its content type."""
        if "application/openmetrics-text" not in accept:
            return generate_latest(self._registry), CONTENT_TYPE_PLAIN_0_0_4
        # No name here needs escaping, and the library's own choice would turn the colon in a sample's name into "_".
        encode, _ = choose_encoder("application/openmetrics-text; version=1.0.0; escaping=allow-utf-8")
        return encode(self._registry), CONTENT_TYPE_OPENMETRICS


class _Collector(Collector):
    def __init__(self, read: Callable[[], Reading], clock: Callable[[], float], *, vllm_names: bool) -> None:
        self._read = read
        self._clock = clock
        self._vllm_names = vllm_names

    def collect(self) -> Iterator[Metric]:
        reading = self._read()
        snapshot = reading.snapshot or empty_snapshot()
        families = Families(prefix="tidemark_", model_label="model", model=reading.model)
        states = {state.value: int(state is reading.state) for state in State}
        yield families.gauges("server_state", "1 for what the server is doing, as /ready has it.", "state", states)
        text = "Processor time of the thread that does all but the model step."
        yield families.counter("event_loop_cpu_seconds", text, self._clock())
        yield from _cache(families, reading.cache, snapshot)
        yield from _positions(families, snapshot)
        yield from _prefix_and_drafts(families, snapshot)
        yield from _requests(families, snapshot, reading.requests)
        yield from _grammars(families, snapshot)
        yield from _timings(families, snapshot, (*STAGES, GUESSING) if reading.guesses else STAGES)
        yield from _pace(families, snapshot.pace)
        yield from _sizes(families, snapshot, reading.requests)
        if self._vllm_names:
            yield from vllm_families(reading.model, reading.cache, snapshot, reading.requests)


def _cache(families: Families, cache: CacheInfo | None, snapshot: Snapshot) -> Iterator[Metric]:
    blocks = _by_state(snapshot.blocks)
    size, size_bytes, step = (cache.block_size, cache.block_bytes, cache.blocks_a_step or 1) if cache else (0, 0, 1)
    positions = _positions_of(blocks, size=size, step=step)
    in_bytes = {state: count * size_bytes for state, count in blocks.items()}
    for unit, by_state in (("blocks", blocks), ("positions", positions), ("bytes", in_bytes)):
        yield families.gauges(f"kv_{unit}", f"Cache {unit}, a partition by state.", "state", by_state)
        yield families.gauge(f"kv_{unit}_capacity", f"All cache {unit}.", sum(by_state.values()))
    tail, tail_bytes = snapshot.tail_positions, snapshot.tail_positions * size_bytes * step // (size or 1)
    yield families.gauge("kv_tail_positions", "Positions of held blocks that nothing was computed for.", tail)
    yield families.gauge("kv_tail_bytes", "Bytes of those positions.", tail_bytes)
    yield families.gauge(
        "kv_usage_ratio", "Blocks that sequences hold, of all; slots without any.", usage_ratio(snapshot)
    )
    yield families.info("cache_config", "The cache as laid out at load.", _cache_config(cache) if cache else None)
    yield from _groups_and_slots(families, cache, snapshot)


def _by_state(counts: BlockCounts) -> dict[str, int]:
    return {"free": counts.free, "allocated": counts.allocated, "shared": counts.shared, "cached": counts.cached}


def _positions_of(blocks: dict[str, int], *, size: int, step: int) -> dict[str, int]:
    """The positions that so many blocks hold, `step` of them for each `size`: whole ones, and still a partition."""
    edges = [sum_ * size // step for sum_ in accumulate(blocks.values(), initial=0)]
    return {state: high - low for state, (low, high) in zip(blocks, pairwise(edges), strict=True)}


def _groups_and_slots(families: Families, cache: CacheInfo | None, snapshot: Snapshot) -> Iterator[Metric]:
    groups = cache.groups if cache and len(cache.groups) > 1 else ()
    held = {
        (group, state): count
        for group, counts in zip(groups, snapshot.groups, strict=False)
        for state, count in _by_state(counts).items()
        if state != "free"  # those are free for every group
    }
    yield families.gauge_grid("kv_group_blocks", "Blocks in use by cache group.", ("group", "state"), held)
    slots = _by_state(snapshot.slots)
    yield families.gauges("state_slots", "Places of recurrent states, a partition by state.", "state", slots)
    yield families.gauge("state_slots_capacity", "All of them.", sum(slots.values()))


def _cache_config(cache: CacheInfo) -> dict[str, str]:
    sizes = {"block_size": str(cache.block_size), "num_blocks": str(cache.num_blocks)}
    return sizes | {"dtype": cache.dtype, "layout": cache.layout}


def _positions(families: Families, snapshot: Snapshot) -> Iterator[Metric]:
    moved = snapshot.positions
    by_event = {
        "planned": moved.planned,
        "computed": moved.computed,
        "accepted": moved.accepted,
        "published": moved.published,
        "rejected": moved.rejected,
        "recomputed": moved.recomputed,
    }
    yield families.counters("positions", "Positions that the ledgers moved.", "event", by_event)
    rollbacks = dict.fromkeys(ROLLBACKS, 0) | snapshot.rollbacks
    yield families.counters("rollbacks", "Moves of planned or computed back.", "reason", rollbacks)
    yield families.counter("preemptions", "Sequences that gave back their cache.", snapshot.preemptions)


def _prefix_and_drafts(families: Families, snapshot: Snapshot) -> Iterator[Metric]:
    yield families.counter("prefix_cache_queries", "Tokens looked up in the prefix cache.", snapshot.prefix_queries)
    yield families.counter("prefix_cache_hits", "Tokens found in the prefix cache.", snapshot.prefix_hits)
    counts = dict.fromkeys(DRAFTERS, DraftCounts()) | snapshot.drafts
    drafts = {source: count.drafts for source, count in counts.items()}
    yield families.counters("drafts", "Drafts verified.", "source", drafts)
    tokens = {source: count.tokens for source, count in counts.items()}
    yield families.counters("draft_tokens", "Tokens of drafts verified.", "source", tokens)
    kept = {source: count.kept for source, count in counts.items()}
    yield families.counters("draft_tokens_accepted", "Tokens of drafts kept.", "source", kept)


def _requests(families: Families, snapshot: Snapshot, requests: RequestsView) -> Iterator[Metric]:
    yield families.gauge("requests_running", "Sequences that run, paused ones not among them.", snapshot.running)
    yield families.gauge("requests_waiting", "Sequences in the queue.", snapshot.waiting)
    yield families.gauge("requests_paused", "Sequences whose reader is slow.", snapshot.paused)
    yield families.gauge("requests_parked", "Sequences whose client has left and may come back.", snapshot.parked)
    totals = {(endpoint.value, outcome.value): count for (endpoint, outcome), count in requests.totals.items()}
    yield families.counter_grid("requests", "Requests answered.", ("endpoint", "outcome"), totals)
    refused = {_snake_case(kind.__name__): 0 for kind in RequestRefused.__subclasses__()}
    refused |= {_snake_case(name): count for name, count in snapshot.refusals.items()}
    yield families.counters("admission_refusals", "Requests turned away at the door.", "reason", refused)
    yield families.counter("client_disconnects", "Requests whose client left first.", snapshot.disconnects)


def _grammars(families: Families, snapshot: Snapshot) -> Iterator[Metric]:
    outcomes = dict.fromkeys(GRAMMARS, 0) | snapshot.grammars
    yield families.counters(
        "grammars", "Grammars that requests asked for, by what became of them.", "outcome", outcomes
    )
    text = "From asking for a grammar that is not kept until it is ready, or refused."
    yield families.histogram("grammar_compile_seconds", text, snapshot.grammar_seconds)


def _timings(families: Families, snapshot: Snapshot, stages: Iterable[str]) -> Iterator[Metric]:
    first, gaps = snapshot.time_to_first_token, snapshot.inter_token_latency
    yield families.histogram("time_to_first_token_seconds", "From arrival to the first output.", first)
    yield families.histogram("inter_token_latency_seconds", "Between two outputs of a sequence.", gaps)
    yield families.histogram("request_queue_seconds", "From arrival to the first admission.", snapshot.queue)
    seconds = dict.fromkeys(stages, Histogram(SECONDS).view()) | snapshot.step_seconds
    yield families.histograms("step_seconds", "Time of a step, by stage.", "stage", seconds)


def _pace(families: Families, pace: PaceView) -> Iterator[Metric]:
    yield families.gauge("step_goal_seconds", "How long the next step may take for its prompts.", pace.goal)
    costs = {
        "step": pace.step,
        "stream": pace.stream,
        "position_alone": pace.position_alone,
        "position_beside": pace.position_beside,
        "draft": pace.draft,
        "draft_tile": pace.draft_tile,
        "round": pace.round,
        "guess": pace.guess,
        "score": pace.score,
    }
    yield families.gauges("step_cost_seconds", "What the parts of a step cost, as learned.", "part", costs)


def _sizes(families: Families, snapshot: Snapshot, requests: RequestsView) -> Iterator[Metric]:
    yield families.histogram("step_positions", "Positions that a step computes.", snapshot.step_positions)
    yield families.histogram("request_duration_seconds", "From arrival to the answer's end.", requests.duration)
    yield families.histogram("request_prompt_tokens", "Tokens of a request's prompt.", requests.prompt_tokens)
    yield families.histogram("request_generated_tokens", "Outputs of a request.", requests.generated_tokens)


def empty_snapshot() -> Snapshot:
    """What an engine that has done nothing would show."""
    stats = Stats()
    return Snapshot(
        blocks=BlockCounts(free=0, allocated=0, shared=0, cached=0),
        groups=(),
        slots=BlockCounts(free=0, allocated=0, shared=0, cached=0),
        tail_positions=0,
        positions=stats.positions,
        running=0,
        waiting=0,
        paused=0,
        parked=0,
        steps=0,
        preemptions=0,
        disconnects=0,
        rollbacks={},
        refusals={},
        drafts={},
        grammars={},
        grammar_seconds=stats.grammar_seconds.view(),
        prefix_queries=0,
        prefix_hits=0,
        time_to_first_token=stats.time_to_first_token.view(),
        inter_token_latency=stats.inter_token_latency.view(),
        queue=stats.queue.view(),
        step_positions=stats.step_positions.view(),
        step_seconds={},
        pace=PaceView(),
        sequences=(),
    )


def _snake_case(name: str) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()
