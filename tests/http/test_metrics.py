"""What /metrics and the log say of a real server, during and after load."""

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from openai.types import CompletionUsage
from prometheus_client.parser import text_string_to_metric_families

from tests.http.processes import ServerProcess

SCRIPTED = "tests.http.scripted"
LONG = "a prompt that fills more than one block of the cache, which holds sixteen"


def sample(text: str, name: str, **labels: str) -> float:
    """The sum of the samples with these labels."""
    samples = [one for family in text_string_to_metric_families(text) for one in family.samples]
    matching = [one for one in samples if one.name == name and labels.items() <= one.labels.items()]
    assert matching, name
    return sum(one.value for one in matching)


def complete(client: httpx.Client, **fields: object) -> CompletionUsage:
    answer = client.post("/v1/completions", json={"model": "scripted", **fields})
    return CompletionUsage.model_validate(answer.json()["usage"])


def wait_until_quiet(client: httpx.Client) -> str:
    """The exposition once nothing runs or waits."""
    while True:
        text = client.get("/metrics").text
        if not sample(text, "tidemark_requests_running") + sample(text, "tidemark_requests_waiting"):
            return text


@pytest.fixture
def hold(tmp_path: Path) -> Path:
    path = tmp_path / "hold"
    path.touch()
    return path


@pytest.fixture(scope="module")
def server() -> Iterator[ServerProcess]:
    with ServerProcess(SCRIPTED, "--server-vllm-metrics", "--engine-check-laws") as process:
        yield process


def test_once_quiet_the_sums_hold(server: ServerProcess) -> None:
    with server.ready_client() as client:
        usages = [
            complete(client, prompt=LONG, max_tokens=5),
            complete(client, prompt=LONG, max_tokens=7),
            complete(client, prompt="short", max_tokens=3, n=3),
            complete(client, prompt=["one", "two"], max_tokens=2),
        ]
        refused = client.post("/v1/completions", json={"model": "other", "prompt": "a"})
        text = wait_until_quiet(client)

    generated = sum(usage.completion_tokens for usage in usages)
    details = usages[1].prompt_tokens_details
    assert generated == 5 + 7 + 9 + 4
    assert sample(text, "tidemark_positions_total", event="published") == generated
    assert sample(text, "tidemark_positions_total", event="accepted") == generated
    assert sample(text, "tidemark_kv_blocks") == sample(text, "tidemark_kv_blocks_capacity") == 4096
    assert sample(text, "tidemark_kv_blocks", state="allocated") == 0
    assert sample(text, "tidemark_kv_blocks", state="shared") == 0
    assert sample(text, "tidemark_kv_blocks", state="cached") > 0
    assert sample(text, "tidemark_kv_usage_ratio") == 0
    assert sample(text, "tidemark_kv_tail_positions") == 0
    assert sample(text, "tidemark_requests_paused") == 0
    assert details is not None
    assert details.cached_tokens == 64
    assert sample(text, "tidemark_prefix_cache_hits_total") >= 64
    assert refused.status_code == 404
    assert sample(text, "tidemark_requests_total", endpoint="completions", outcome="finished") == len(usages)
    assert sample(text, "tidemark_requests_total", endpoint="completions", outcome="refused") == 1
    assert sample(text, "tidemark_request_prompt_tokens_count") == len(usages)
    assert sample(text, "tidemark_request_generated_tokens_sum") == generated
    assert sample(text, "tidemark_step_seconds_count", stage="execute") > 0
    assert sample(text, "vllm:generation_tokens_total", model_name="scripted") == generated


def test_a_scrape_does_not_wait_for_the_step_that_it_sees(hold: Path) -> None:
    with (
        ServerProcess(SCRIPTED, "--hold", str(hold), "--free-steps", "1") as server,
        server.ready_client() as client,
        client.stream(
            "POST", "/v1/completions", json={"model": "scripted", "prompt": LONG, "max_tokens": 4, "stream": True}
        ) as stream,
    ):
        next(stream.iter_lines())

        text = client.get("/metrics").text
        hold.unlink()

    assert sample(text, "tidemark_requests_running") == 1
    assert sample(text, "tidemark_kv_blocks", state="allocated") == -(-(len(LONG) + 1) // 16)
    assert sample(text, "tidemark_kv_blocks") == sample(text, "tidemark_kv_blocks_capacity")
    assert sample(text, "tidemark_positions_total", event="planned") == len(LONG) + 1
    assert sample(text, "tidemark_positions_total", event="computed") == len(LONG)


@pytest.mark.parametrize("resume_seconds", [0, 300])
def test_a_client_that_leaves_is_counted_and_its_cache_is_free_again(hold: Path, resume_seconds: int) -> None:
    flags = ("--hold", str(hold), "--free-steps", "1", "--server-resume-seconds", str(resume_seconds))
    with (
        ServerProcess(SCRIPTED, *flags) as server,
        server.ready_client() as client,
    ):
        asked = {"model": "scripted", "prompt": LONG, "max_tokens": 40_000, "stream": True}
        with client.stream("POST", "/v1/completions", json=asked) as stream:
            next(stream.iter_lines())
        hold.unlink()
        text = wait_until_quiet(client)

    assert sample(text, "tidemark_client_disconnects_total") == 1
    assert sample(text, "tidemark_requests_total", outcome="aborted") == (resume_seconds == 0)
    assert sample(text, "tidemark_requests_parked") == (resume_seconds > 0)
    assert sample(text, "tidemark_kv_blocks", state="allocated") == 0
    assert sample(text, "tidemark_positions_total", event="published") >= 1


def test_a_log_line_tells_what_a_request_used_and_never_its_text_or_its_key() -> None:
    with ServerProcess(SCRIPTED, "--api-key", "a-secret-key") as server, server.ready_client() as client:
        client.headers["authorization"] = "Bearer a-secret-key"
        asked = {"model": "scripted", "prompt": "a secret prompt", "max_tokens": 3}
        client.post("/v1/completions?api_key=a-secret-key", json=asked, headers={"x-request-id": "mine"})
        client.post("/v1/completions", json={**asked, "temperature": "a secret field"})
        client.get("/v1/models", headers={"authorization": "Bearer another secret"})
        line = server.said("request_id=mine")

    assert line.string.split(" ", 1)[1].startswith(
        "level=info event=request method=POST path=/v1/completions endpoint=/completions status=200 request_id=mine"
    )
    assert " key=1 " in line.string
    assert " prompt_tokens=15 output_tokens=3 choices=1 cached_tokens=0 " in line.string
    assert not any("secret" in line for line in server.lines)
