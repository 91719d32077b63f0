"""The whole surface before a model has loaded: what is where, and what stands around it."""

import logging

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families
from pydantic import SecretStr

from config.settings import ModelSettings, ServerSettings, Settings
from server.app import create_app
from server.logs import Log
from server.service import Service
from tests.fakes import make_service
from tests.http.clients import client_of as whole_client_of
from tests.server.asgi import client_of

pytestmark = pytest.mark.anyio

ENVELOPE = {"message", "type", "param", "code"}


def surface(server: ServerSettings = ServerSettings()) -> httpx.AsyncClient:  # noqa: B008  # frozen
    settings = Settings(model=ModelSettings(path="a-model"), server=server)
    logger = logging.Logger("tidemark", logging.CRITICAL)
    return client_of(create_app(settings, Service(settings), log=Log(logger)))


@pytest.fixture
def locked() -> httpx.AsyncClient:
    return surface(ServerSettings(api_keys=(SecretStr("k"),), metrics_need_key=True))


def prefixed(*paths: str) -> list[str]:
    return [prefix + path for path in paths for prefix in ("", "/v1")]


@pytest.mark.parametrize("path", prefixed("/nope", "/chat", "/health/", "/docs/", "/redoc"))
async def test_an_unknown_path_is_404_in_the_envelope(path: str) -> None:
    async with surface() as client:
        answer = await client.get(path)

    assert answer.status_code == 404
    assert set(answer.json()["error"]) == ENVELOPE


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("GET", "/v1/chat/completions", "POST"),
        ("PUT", "/completions", "POST"),
        ("HEAD", "/v1/completions", "POST"),
        ("POST", "/v1/models", "GET, HEAD"),
        ("PUT", "/v1/responses/input_tokens", "POST"),
        ("PUT", "/v1/responses/resp_1", "DELETE, GET, HEAD"),
        ("DELETE", "/health", "GET, HEAD"),
        ("POST", "/metrics", "GET, HEAD"),
        ("POST", "/docs", "GET, HEAD"),
    ],
)
async def test_a_wrong_method_is_405_with_what_is_allowed(method: str, path: str, allowed: str) -> None:
    async with surface() as client:
        answer = await client.request(method, path)

    assert answer.status_code == 405
    assert answer.headers["allow"] == allowed
    assert method == "HEAD" or set(answer.json()["error"]) == ENVELOPE


PAGES = ("/docs", "/docs/page.js", "/docs/page.css", "/openapi.json")


@pytest.mark.parametrize("path", [*prefixed("/health", "/ready", "/version", "/metrics", "/models", "/ledger"), *PAGES])
async def test_head_is_answered_as_get_is_without_a_body(path: str) -> None:
    async with whole_client_of(make_service()) as client:
        got, headed = await client.get(path), await client.head(path)

    assert (headed.status_code, headed.content) == (got.status_code, b"")
    if "metrics" not in path:  # whose figures move from one to the other
        assert headed.headers["content-length"] == got.headers["content-length"]
    assert headed.headers["content-type"] == got.headers["content-type"]


async def test_options_without_a_preflight_lists_the_methods_and_needs_no_key() -> None:
    async with surface() as client:
        answer = await client.options("/v1/completions")
        nowhere = await client.options("/v1/nowhere")

    assert (answer.status_code, answer.headers["allow"], answer.content) == (204, "POST", b"")
    assert nowhere.status_code == 404


@pytest.mark.parametrize("path", prefixed("/models", "/models/a/b", "/ledger", "/ready"))
async def test_what_needs_the_model_says_when_to_come_back(path: str) -> None:
    async with surface() as client:
        answer = await client.get(path)

    assert answer.status_code == 503
    assert int(answer.headers["retry-after"]) > 0
    assert answer.json()["error"]["code"] == "model_loading"


@pytest.mark.parametrize("path", prefixed("/health", "/version", "/metrics"))
async def test_what_needs_no_model_answers_at_once(path: str) -> None:
    async with surface() as client:
        assert (await client.get(path)).status_code == 200


async def test_metrics_name_the_model_that_is_being_loaded() -> None:
    async with surface() as client:
        answer = await client.get("/metrics")

    families = {family.name: family for family in text_string_to_metric_families(answer.text)}
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    assert families["tidemark_requests_running"].samples[0].labels == {"model": "a-model"}
    assert families["tidemark_requests_running"].samples[0].value == 0


@pytest.mark.parametrize("path", prefixed("/models", "/ledger", "/metrics", "/version", "/nope", "/tokenize"))
async def test_with_keys_set_a_path_needs_one(locked: httpx.AsyncClient, path: str) -> None:
    async with locked as client:
        without = await client.get(path)
        with_key = await client.get(path, headers={"authorization": "Bearer k"})

    assert without.status_code == 401
    assert without.headers["www-authenticate"] == "Bearer"
    assert with_key.status_code != 401


@pytest.mark.parametrize("path", prefixed("/health", "/ready"))
async def test_with_keys_set_probes_need_none(locked: httpx.AsyncClient, path: str) -> None:
    async with locked as client:
        assert (await client.get(path)).status_code != 401


async def test_metrics_need_a_key_only_by_setting() -> None:
    async with surface(ServerSettings(api_keys=(SecretStr("k"),))) as client:
        assert (await client.get("/metrics")).status_code == 200


@pytest.mark.parametrize("path", ["/v1/models", "/v1/chat/completions", "/nope"])
async def test_a_page_may_ask_before_it_has_a_key_and_can_read_every_refusal(
    locked: httpx.AsyncClient, path: str
) -> None:
    page = {"origin": "http://localhost:5173"}
    async with locked as client:
        preflight = await client.options(path, headers={**page, "access-control-request-method": "POST"})
        refused = await client.post(path, headers=page)
        failed = await client.post(path, headers={**page, "authorization": "Bearer k"}, content=b"{")

    assert preflight.status_code == 200
    assert refused.status_code == 401
    for answer in (preflight, refused, failed):
        assert answer.headers["access-control-allow-origin"] == "http://localhost:5173"


async def test_a_body_over_the_limit_is_413_in_the_envelope() -> None:
    async with surface(ServerSettings(max_body_bytes=1024)) as client:
        answer = await client.post("/v1/completions", json={"model": "a", "prompt": "x" * 2000})

    assert answer.status_code == 413
    assert set(answer.json()["error"]) == ENVELOPE


async def test_every_answer_has_a_request_id_and_a_time() -> None:
    async with surface() as client:
        for answer in (await client.get("/health"), await client.get("/nope"), await client.post("/v1/completions")):
            assert answer.headers["x-request-id"]
            assert answer.headers["openai-processing-ms"].isdecimal()


async def test_the_description_of_the_surface_names_each_endpoint_once() -> None:
    async with surface() as client:
        described = (await client.get("/openapi.json")).json()

    assert "/v1/chat/completions" in described["paths"]
    assert all(path.startswith("/v1/") for path in described["paths"])
