"""The same numbers under vLLM's names and its label, for dashboards that exist already."""

from collections.abc import Iterator

from prometheus_client.core import Metric

from engine.stats import CacheInfo, Snapshot
from server.families import Families, usage_ratio
from server.recorder import RequestsView


def vllm_families(model: str, cache: CacheInfo | None, snapshot: Snapshot, requests: RequestsView) -> Iterator[Metric]:
    """The families of vLLM that its dashboards and autoscalers read."""
    families = Families(prefix="vllm:", model_label="model_name", model=model)
    yield families.gauge("num_requests_running", "As tidemark_requests_running.", snapshot.running)
    yield families.gauge("num_requests_waiting", "As tidemark_requests_waiting.", snapshot.waiting)
    yield families.gauge("kv_cache_usage_perc", "As tidemark_kv_usage_ratio.", usage_ratio(snapshot))
    yield families.info("cache_config", "As tidemark_cache_config_info.", _cache_config(cache) if cache else None)
    yield from _counters(families, snapshot, requests)
    yield from _histograms(families, snapshot, requests)


def _cache_config(cache: CacheInfo) -> dict[str, str]:
    return {"block_size": str(cache.block_size), "num_gpu_blocks": str(cache.num_positions // cache.block_size)}


def _counters(families: Families, snapshot: Snapshot, requests: RequestsView) -> Iterator[Metric]:
    yield families.counter("num_preemptions", "As tidemark_preemptions_total.", snapshot.preemptions)
    yield families.counter("prefix_cache_queries", "As in tidemark_.", snapshot.prefix_queries)
    yield families.counter("prefix_cache_hits", "As in tidemark_.", snapshot.prefix_hits)
    yield families.counter("prompt_tokens", "Tokens of answered requests' prompts.", requests.prompt_tokens.sum)
    yield families.counter("generation_tokens", "Outputs accepted.", snapshot.positions.accepted)


def _histograms(families: Families, snapshot: Snapshot, requests: RequestsView) -> Iterator[Metric]:
    gaps = snapshot.inter_token_latency
    yield families.histogram("time_to_first_token_seconds", "As in tidemark_.", snapshot.time_to_first_token)
    yield families.histogram("inter_token_latency_seconds", "As in tidemark_.", gaps)
    yield families.histogram("request_queue_time_seconds", "As tidemark_request_queue_seconds.", snapshot.queue)
    yield families.histogram("e2e_request_latency_seconds", "As tidemark_request_duration_seconds.", requests.duration)
    yield families.histogram("request_prompt_tokens", "As in tidemark_.", requests.prompt_tokens)
    yield families.histogram("request_generation_tokens", "As in tidemark_.", requests.generated_tokens)
