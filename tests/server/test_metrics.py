"""The exposition: every family at zero, one snapshot a scrape, sums that hold."""

from dataclasses import replace

import pytest
from prometheus_client import REGISTRY, Metric
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse

from engine.stats import BlockCounts, CacheInfo, Histogram, Snapshot, Stats
from server.metrics import Metrics, Reading, empty_snapshot
from server.recorder import Endpoint, Outcome, RequestMetrics
from server.service import State

CACHE = CacheInfo(block_size=16, num_blocks=10, block_bytes=4096, dtype="float32", layout="full attention")

COUNTERS = {
    "positions",
    "rollbacks",
    "drafts",
    "draft_tokens",
    "draft_tokens_accepted",
    "grammars",
    "prefix_cache_queries",
    "prefix_cache_hits",
    "requests",
    "admission_refusals",
    "preemptions",
    "client_disconnects",
    "event_loop_cpu_seconds",
}
GAUGES = {
    "server_state",
    "kv_blocks",
    "kv_blocks_capacity",
    "kv_positions",
    "kv_positions_capacity",
    "kv_bytes",
    "kv_bytes_capacity",
    "kv_tail_positions",
    "kv_tail_bytes",
    "kv_usage_ratio",
    "kv_group_blocks",
    "state_slots",
    "state_slots_capacity",
    "cache_config_info",
    "requests_running",
    "requests_waiting",
    "requests_parked",
    "requests_paused",
    "step_goal_seconds",
    "step_cost_seconds",
}
HISTOGRAMS = {
    "time_to_first_token_seconds",
    "inter_token_latency_seconds",
    "request_duration_seconds",
    "request_queue_seconds",
    "grammar_compile_seconds",
    "step_seconds",
    "step_positions",
    "request_prompt_tokens",
    "request_generated_tokens",
}

Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]


def reading(snapshot: Snapshot | None = None, *, cache: CacheInfo | None = CACHE) -> Reading:
    return Reading(model="tiny", state=State.READY, cache=cache, snapshot=snapshot, requests=RequestMetrics().view())


def scrape(shown: Reading, *, vllm_names: bool = False) -> Samples:
    body, _ = Metrics(lambda: shown, vllm_names=vllm_names, clock=lambda: 0.0).render("")
    families = list(parse(body.decode()))
    return {(s.name, frozenset(s.labels.items())): s.value for family in families for s in family.samples}


def openmetrics_families(body: bytes) -> list[Metric]:
    return list(parse_openmetrics(body.decode()))  # type: ignore[no-untyped-call]  # the library leaves it untyped


def by_label(samples: Samples, name: str, label: str) -> dict[str, float]:
    return {dict(labels)[label]: value for (sample, labels), value in samples.items() if sample == name}


def one(samples: Samples, name: str) -> float:
    (value,) = (value for (sample, _), value in samples.items() if sample == name)
    return value


def test_every_family_is_there_before_the_model_is_loaded() -> None:
    body, _ = Metrics(lambda: reading(cache=None), vllm_names=False).render("")

    families = {family.name.removeprefix("tidemark_"): family.type for family in parse(body.decode())}
    ours = {name: kind for name, kind in families.items() if not name.startswith("process_")}

    assert {name for name, kind in ours.items() if kind == "counter"} == COUNTERS
    assert {name for name, kind in ours.items() if kind == "gauge"} == GAUGES
    assert {name for name, kind in ours.items() if kind == "histogram"} == HISTOGRAMS


def test_every_family_but_those_of_the_layout_has_samples_at_zero() -> None:
    samples = scrape(reading(cache=None))

    ours = {name: value for (name, _), value in samples.items() if name.startswith("tidemark_")}
    named = {name.removeprefix("tidemark_") for name in ours}

    assert {value for name, value in ours.items() if name != "tidemark_server_state"} == {0.0}
    assert {f"{name}_total" for name in COUNTERS} | GAUGES - {"cache_config_info", "kv_group_blocks"} <= named
    assert {f"{name}_count" for name in HISTOGRAMS} <= named


@pytest.mark.parametrize("state", State)
def test_exactly_one_state_of_the_server_is_shown(state: State) -> None:
    samples = scrape(replace(reading(), state=state))

    shown = by_label(samples, "tidemark_server_state", "state")

    assert set(shown) == {"ready", "model_loading", "draining", "stalled", "engine_stopped"}
    assert [name for name, value in shown.items() if value] == [state]


def test_the_event_loop_s_thread_tells_what_it_has_worked() -> None:
    used = iter((1.5, 2.0))
    metrics = Metrics(reading, vllm_names=False, clock=lambda: next(used))

    assert b'\ntidemark_event_loop_cpu_seconds_total{model="tiny"} 1.5\n' in metrics.render("")[0]
    assert b'\ntidemark_event_loop_cpu_seconds_total{model="tiny"} 2.0\n' in metrics.render("")[0]


def test_every_sample_names_the_model() -> None:
    samples = scrape(reading(empty_snapshot()))

    ours = [dict(labels) for (name, labels) in samples if name.startswith("tidemark_")]

    assert ours
    assert all(labels["model"] == "tiny" for labels in ours)


def test_the_block_states_are_a_partition_in_blocks_positions_and_bytes() -> None:
    blocks = BlockCounts(free=4, allocated=3, shared=1, cached=2)
    snapshot = replace(empty_snapshot(), blocks=blocks, tail_positions=5)

    samples = scrape(reading(snapshot))

    for unit, scale in (("blocks", 1), ("positions", 16), ("bytes", 4096)):
        states = by_label(samples, f"tidemark_kv_{unit}", "state")
        assert states == {"free": 4 * scale, "allocated": 3 * scale, "shared": scale, "cached": 2 * scale}
        assert sum(states.values()) == one(samples, f"tidemark_kv_{unit}_capacity") == 10 * scale
    assert one(samples, "tidemark_kv_usage_ratio") == 0.4
    assert one(samples, "tidemark_kv_tail_positions") == 5
    assert one(samples, "tidemark_kv_tail_bytes") == 5 * 4096 / 16


def test_of_several_groups_the_positions_are_those_that_all_of_them_keep_and_still_a_partition() -> None:
    blocks = BlockCounts(free=3, allocated=5, shared=1, cached=1)
    groups = (BlockCounts(3, 1, 1, 0), BlockCounts(3, 4, 0, 1))
    cache = replace(CACHE, groups=("full attention", "sliding window of 64"), blocks_a_step=3)
    snapshot = replace(empty_snapshot(), blocks=blocks, groups=groups, tail_positions=2)

    samples = scrape(reading(snapshot, cache=cache))

    assert by_label(samples, "tidemark_kv_positions", "state") == {
        "free": 16,
        "allocated": 26,
        "shared": 6,
        "cached": 5,
    }
    assert one(samples, "tidemark_kv_positions_capacity") == cache.num_positions == 160 // 3
    assert one(samples, "tidemark_kv_bytes_capacity") == 10 * 4096
    assert one(samples, "tidemark_kv_tail_bytes") == 2 * 3 * 4096 / 16
    held = {
        (dict(labels)["group"], dict(labels)["state"]): value
        for (name, labels), value in samples.items()
        if name == "tidemark_kv_group_blocks"
    }
    assert held == {
        ("full attention", "allocated"): 1,
        ("full attention", "shared"): 1,
        ("full attention", "cached"): 0,
        ("sliding window of 64", "allocated"): 4,
        ("sliding window of 64", "shared"): 0,
        ("sliding window of 64", "cached"): 1,
    }


def test_one_group_is_not_shown_twice() -> None:
    samples = scrape(reading(replace(empty_snapshot(), groups=(BlockCounts(9, 1, 0, 0),))))

    assert not [name for name, _ in samples if name == "tidemark_kv_group_blocks"]


@pytest.mark.parametrize(
    ("blocks", "ratio"), [(BlockCounts(0, 0, 0, 0), 0.4), (BlockCounts(free=5, allocated=1, shared=1, cached=1), 0.25)]
)
def test_a_model_of_states_alone_is_as_full_as_its_slots(blocks: BlockCounts, ratio: float) -> None:
    slots = BlockCounts(free=2, allocated=3, shared=1, cached=4)

    samples = scrape(reading(replace(empty_snapshot(), blocks=blocks, slots=slots)), vllm_names=True)

    assert one(samples, "tidemark_kv_usage_ratio") == ratio
    assert ratio in {value for (name, _), value in samples.items() if name == "vllm:kv_cache_usage_perc"}


def test_the_slots_of_recurrent_states_are_a_partition() -> None:
    snapshot = replace(empty_snapshot(), slots=BlockCounts(free=2, allocated=3, shared=1, cached=4))

    samples = scrape(reading(snapshot))

    states = by_label(samples, "tidemark_state_slots", "state")
    assert states == {"free": 2, "allocated": 3, "shared": 1, "cached": 4}
    assert one(samples, "tidemark_state_slots_capacity") == 10


def test_vllms_blocks_hold_block_size_positions_each_whatever_the_groups() -> None:
    cache = replace(CACHE, blocks_a_step=3)

    samples = scrape(reading(empty_snapshot(), cache=cache), vllm_names=True)

    ((labels, _),) = ((dict(ls), v) for (name, ls), v in samples.items() if name == "vllm:cache_config_info")
    assert (labels["block_size"], labels["num_gpu_blocks"]) == ("16", "3")


def test_the_layout_is_shown_as_labels() -> None:
    samples = scrape(reading(empty_snapshot()))

    ((labels, value),) = ((dict(ls), v) for (name, ls), v in samples.items() if name == "tidemark_cache_config_info")

    assert value == 1
    assert labels == {
        "model": "tiny",
        "block_size": "16",
        "num_blocks": "10",
        "dtype": "float32",
        "layout": "full attention",
    }


def test_refusals_and_rollbacks_keep_their_zeros_beside_what_happened() -> None:
    snapshot = replace(empty_snapshot(), refusals={"QueueFull": 3}, rollbacks={"preempted": 2})

    samples = scrape(reading(snapshot))

    refusals = by_label(samples, "tidemark_admission_refusals_total", "reason")
    assert refusals == {
        "empty_prompt": 0,
        "unknown_token": 0,
        "context_too_long": 0,
        "grammar_refused": 0,
        "compilers_busy": 0,
        "queue_full": 3,
        "draining": 0,
    }
    rollbacks = by_label(samples, "tidemark_rollbacks_total", "reason")
    assert rollbacks == {"preempted": 2, "parked": 0, "step_failed": 0, "stale": 0, "rejected": 0}


def test_grammars_are_counted_by_what_became_of_them_with_the_time_that_it_took() -> None:
    stats = Stats()
    stats.count_grammar("compiled", 0.2)
    stats.count_grammar("cached", 0.0)
    stats.count_grammar("refused", 3.0)
    shown = replace(empty_snapshot(), grammars=dict(stats.grammars), grammar_seconds=stats.grammar_seconds.view())

    samples = scrape(reading(shown))

    outcomes = by_label(samples, "tidemark_grammars_total", "outcome")
    assert outcomes == {"compiled": 1, "cached": 1, "refused": 1}
    assert one(samples, "tidemark_grammar_compile_seconds_count") == 2
    assert one(samples, "tidemark_grammar_compile_seconds_sum") == 3.2
    assert by_label(scrape(reading()), "tidemark_grammars_total", "outcome") == dict.fromkeys(outcomes, 0)


def test_a_histogram_is_cumulative_and_ends_with_everything() -> None:
    queue = Histogram((0.1, 1.0))
    queue.observe(0.1)
    queue.observe(0.5, times=2)
    queue.observe(7.0)

    samples = scrape(reading(replace(empty_snapshot(), queue=queue.view())))

    buckets = by_label(samples, "tidemark_request_queue_seconds_bucket", "le")
    assert buckets == {"0.1": 1, "1.0": 3, "+Inf": 4}
    assert one(samples, "tidemark_request_queue_seconds_count") == 4
    assert one(samples, "tidemark_request_queue_seconds_sum") == 8.1


@pytest.mark.parametrize("guesses", [False, True])
def test_every_stage_of_a_step_is_there_before_the_first_step(*, guesses: bool) -> None:
    samples = scrape(replace(reading(), guesses=guesses))

    stages = {dict(labels)["stage"] for name, labels in samples if name == "tidemark_step_seconds_count"}
    assert stages == {"plan", "execute", "model", "masks", "sample", "commit", "publish"} | (
        {"guess"} if guesses else set()
    )


def test_a_request_is_counted_under_its_endpoint_and_outcome() -> None:
    recorder = RequestMetrics()
    recorder.observe(
        endpoint=Endpoint.COMPLETIONS, outcome=Outcome.FINISHED, seconds=0.2, prompt_tokens=7, generated_tokens=3
    )
    recorder.observe(endpoint=Endpoint.COMPLETIONS, outcome=Outcome.REFUSED, seconds=0.1)

    samples = scrape(Reading("tiny", State.READY, CACHE, empty_snapshot(), recorder.view()))

    counted = {
        (dict(labels)["endpoint"], dict(labels)["outcome"]): value
        for (name, labels), value in samples.items()
        if name == "tidemark_requests_total" and value
    }
    assert counted == {("completions", "finished"): 1, ("completions", "refused"): 1}
    assert one(samples, "tidemark_request_prompt_tokens_count") == 1
    assert one(samples, "tidemark_request_generated_tokens_sum") == 3
    assert one(samples, "tidemark_request_duration_seconds_count") == 2


def test_vllms_names_come_only_when_asked_for() -> None:
    snapshot = replace(empty_snapshot(), running=2, waiting=1, blocks=BlockCounts(1, 1, 0, 0))

    plain, both = scrape(reading(snapshot)), scrape(reading(snapshot), vllm_names=True)

    assert not [name for name, _ in plain if name.startswith("vllm:")]
    model = frozenset({("model_name", "tiny")})
    assert both["vllm:num_requests_running", model] == 2
    assert both["vllm:num_requests_waiting", model] == 1
    assert both["vllm:kv_cache_usage_perc", model] == 0.5
    assert ("vllm:generation_tokens_total", model) in both
    assert ("vllm:time_to_first_token_seconds_count", model) in both


def test_a_scrape_reads_the_engine_once() -> None:
    readings: list[Reading] = []

    def read() -> Reading:
        readings.append(reading(empty_snapshot()))
        return readings[-1]

    metrics = Metrics(read, vllm_names=True)
    metrics.render("")

    assert len(readings) == 1


def test_the_accept_header_chooses_the_format() -> None:
    metrics = Metrics(lambda: reading(empty_snapshot()), vllm_names=True)

    text, text_type = metrics.render("*/*")
    openmetrics, openmetrics_type = metrics.render("application/openmetrics-text; version=1.0.0,text/plain;q=0.5")

    assert text_type.startswith("text/plain; version=0.0.4")
    assert openmetrics_type.startswith("application/openmetrics-text; version=1.0.0")
    assert openmetrics.endswith(b"# EOF\n")
    assert b"\nvllm:num_requests_running{" in openmetrics
    assert len(openmetrics_families(openmetrics)) == len(list(parse(text.decode())))


def test_the_process_is_measured_and_the_global_registry_stays_untouched() -> None:
    body, _ = Metrics(reading, vllm_names=False).render("")

    assert b"process_resident_memory_bytes" in body
    assert not [family for family in REGISTRY.collect() if family.name.startswith("tidemark")]
