"""The body limit, keys and CORS, each around the smallest application."""

import httpx
import pytest
from pydantic import SecretStr
from starlette.middleware.cors import CORSMiddleware
from starlette.types import Message, Receive, Scope, Send

from server.middleware import BodyLimit, Heads, Keys, TypedBodies, cors_options
from tests.server.asgi import Endpoint, call, client_of, hello, in_pieces, length

pytestmark = pytest.mark.anyio


def limited(app: Endpoint = length, *, max_bytes: int = 10) -> httpx.AsyncClient:
    return client_of(BodyLimit(app, max_bytes=max_bytes))


def locked(*keys: str) -> httpx.AsyncClient:
    return client_of(Keys(hello, keys=[SecretStr(key) for key in keys], open_paths=frozenset({"/health", "/"})))


def crossing(*origins: str) -> httpx.AsyncClient:
    return client_of(
        CORSMiddleware(Keys(hello, keys=[SecretStr("k")], open_paths=frozenset()), **cors_options(origins))
    )


@pytest.mark.parametrize("size", [0, 1, 10])
async def test_a_body_up_to_the_limit_passes(size: int) -> None:
    async with limited() as client:
        declared = await client.post("/", content=b"x" * size)
        counted = await client.post("/", content=in_pieces(b"x" * size))

    assert (declared.status_code, declared.text) == (200, str(size))
    assert (counted.status_code, counted.text) == (200, str(size))


async def test_a_declared_length_over_the_limit_is_refused_before_any_of_the_body_is_read() -> None:
    async def unread() -> Message:
        raise AssertionError

    async def reader(scope: Scope, _receive: Receive, send: Send) -> None:
        await BodyLimit(length, max_bytes=10)(scope, unread, send)

    async with client_of(reader) as client:
        answer = await client.post("/", content=b"x" * 11)

    assert answer.status_code == 413
    assert answer.json() == {
        "error": {
            "message": "the body is larger than 10 bytes",
            "type": "invalid_request_error",
            "param": None,
            "code": "request_too_large",
        }
    }


async def test_a_body_without_a_length_is_counted_and_not_read_past_the_limit() -> None:
    read: list[int] = []

    async def reader(scope: Scope, receive: Receive, send: Send) -> None:
        async def receive_and_note() -> Message:
            message = await receive()
            read.append(len(message.get("body", b"")))
            return message

        await length(scope, receive_and_note, send)

    async with limited(reader) as client:
        answer = await client.post("/", content=in_pieces(b"x" * 6, b"x" * 6, b"x" * 6))

    assert answer.status_code == 413
    assert read == [6]


async def test_an_application_that_answers_its_failed_read_itself_is_overruled() -> None:
    async def polite(scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await length(scope, receive, send)
        except Exception:  # noqa: BLE001  # as a framework does that turns every failed read into a 400
            await send({"type": "http.response.start", "status": 400, "headers": []})
            await send({"type": "http.response.body", "body": b"bad body"})

    async with limited(polite) as client:
        answer = await client.post("/", content=in_pieces(b"x" * 20))

    assert answer.status_code == 413


@pytest.mark.parametrize("value", [b"", b"abc", b"-5", "²".encode("latin-1")])
async def test_a_length_that_is_no_number_is_no_length(value: bytes) -> None:
    sent = await call(BodyLimit(hello, max_bytes=10), {"headers": [(b"content-length", value)]})

    assert sent[0]["status"] == 200


async def test_no_keys_ask_nobody() -> None:
    async with locked() as client:
        assert (await client.get("/v1/models")).status_code == 200


@pytest.mark.parametrize(
    "headers",
    [
        {"authorization": "Bearer first"},
        {"authorization": "bearer second"},
        {"authorization": "Bearer  second "},
        {"x-api-key": "first"},
        {"authorization": "Bearer wrong", "x-api-key": "first"},
    ],
)
async def test_any_of_the_keys_opens(headers: dict[str, str]) -> None:
    async with locked("first", "second") as client:
        assert (await client.get("/v1/models", headers=headers)).status_code == 200


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"authorization": "first"},
        {"authorization": "Basic first"},
        {"authorization": "Bearer"},
        {"authorization": "Bearer firs"},
        {"authorization": "Bearer first2"},
        {"authorization": "Bearer \u00fc"},
        {"x-api-key": ""},
    ],
)
async def test_no_key_and_a_wrong_one_are_refused_alike(headers: dict[str, str]) -> None:
    async with locked("first", "second") as client:
        answer = await client.get(
            "/v1/models", headers={name.encode(): value.encode() for name, value in headers.items()}
        )

    assert answer.status_code == 401
    assert answer.headers["www-authenticate"] == "Bearer"
    assert answer.json()["error"]["code"] == "invalid_api_key"
    assert "first" not in answer.text


@pytest.mark.parametrize("path", ["/", "/health", "/v1/health"])
async def test_open_paths_need_no_key(path: str) -> None:
    async with locked("first") as client:
        assert (await client.get(path)).status_code == 200


@pytest.mark.parametrize("path", ["/health/", "//health", "/healthy", "/v1/v1/health", "/HEALTH"])
async def test_paths_that_resemble_open_ones_need_a_key(path: str) -> None:
    sent = await call(Keys(hello, keys=[SecretStr("first")], open_paths=frozenset({"/health"})), {"path": path})

    assert sent[0]["status"] == 401


async def test_options_need_no_key() -> None:
    async with locked("first") as client:
        assert (await client.options("/v1/models")).status_code == 200


@pytest.mark.parametrize(
    "origin",
    ["http://localhost", "https://localhost:5173", "http://127.0.0.1:8000", "http://[::1]:3000"],
)
async def test_pages_of_this_machine_may_call_and_read_errors(origin: str) -> None:
    async with crossing("localhost") as client:
        preflight = await client.options(
            "/v1/models",
            headers={
                "origin": origin,
                "access-control-request-method": "POST",
                "access-control-request-headers": "authorization,content-type,x-stainless-os",
            },
        )
        refused = await client.post("/v1/models", headers={"origin": origin})

    assert preflight.status_code == 200
    assert preflight.headers["access-control-allow-origin"] == origin
    assert "x-stainless-os" in preflight.headers["access-control-allow-headers"]
    assert refused.status_code == 401
    assert refused.headers["access-control-allow-origin"] == origin
    assert "retry-after" in refused.headers["access-control-expose-headers"]


@pytest.mark.parametrize(
    "origin",
    ["http://example.com", "http://localhost.example.com", "http://notlocalhost", "null", "http://localhost:80:80"],
)
async def test_other_pages_may_not(origin: str) -> None:
    async with crossing("localhost") as client:
        preflight = await client.options(
            "/v1/models", headers={"origin": origin, "access-control-request-method": "POST"}
        )
        answer = await client.post("/v1/models", headers={"origin": origin, "authorization": "Bearer k"})

    assert preflight.status_code == 400
    assert "access-control-allow-origin" not in preflight.headers
    assert "access-control-allow-origin" not in answer.headers


async def test_a_stream_that_is_asked_for_by_head_ends_with_its_headers() -> None:
    seen: list[str] = []

    async def endless(scope: Scope, receive: Receive, send: Send) -> None:
        seen.append(scope["method"])
        await send({"type": "http.response.start", "status": 200, "headers": []})
        while (message := await receive())["type"] != "http.disconnect":
            await send({"type": "http.response.body", "body": b"more", "more_body": True})
        seen.append(message["type"])

    async with client_of(Heads(endless)) as client:
        answer = await client.head("/")

    assert (answer.status_code, answer.content) == (200, b"")
    assert seen == ["GET", "http.disconnect"]


async def test_a_page_can_not_send_a_body_that_browsers_send_without_asking() -> None:
    async with client_of(TypedBodies(length)) as client:
        page = {"origin": "https://example.com"}
        untyped = await client.post("/", headers=page, content=b"{}")
        typed = await client.post("/", headers=page, json={})
        no_page = await client.post("/", content=b"{}")
        reading = await client.get("/", headers=page)

    assert untyped.status_code == 415
    assert typed.status_code == no_page.status_code == reading.status_code == 200


async def test_named_origins_replace_the_local_ones() -> None:
    async with crossing("https://chat.example.com") as client:
        named = await client.get("/", headers={"origin": "https://chat.example.com"})
        local = await client.get("/", headers={"origin": "http://localhost"})

    assert named.headers["access-control-allow-origin"] == "https://chat.example.com"
    assert "access-control-allow-origin" not in local.headers


async def test_a_star_lets_every_page_call() -> None:
    async with crossing("*") as client:
        answer = await client.get("/", headers={"origin": "https://anywhere.example"})

    assert answer.headers["access-control-allow-origin"] == "*"
