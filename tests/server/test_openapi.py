from typing import Any

import pytest

from server.openapi import body_of
from server.wire.chat import ChatRequest
from server.wire.completions import CompletionRequest
from tests.fakes import make_service
from tests.http.clients import app_of, client_of

Json = dict[str, Any]


def schema(model: type[ChatRequest] | type[CompletionRequest]) -> Json:
    result: Json = body_of(model)["requestBody"]["content"]["application/json"]["schema"]
    return result


def test_a_body_is_described_with_its_ranges_and_without_references() -> None:
    chat, text = schema(ChatRequest), schema(CompletionRequest)

    assert set(chat["required"]) == {"model", "messages"}
    assert set(text["required"]) == {"model", "prompt"}
    assert chat["properties"]["temperature"]["anyOf"][0] == {"type": "number", "minimum": 0, "maximum": 2}
    assert "$ref" not in str(chat)
    assert chat["properties"]["messages"]["items"]["properties"]["role"]["enum"][0] == "system"


@pytest.mark.anyio
async def test_the_description_is_served_and_no_page_that_loads_scripts_from_elsewhere() -> None:
    async with client_of(make_service()) as client:
        described = await client.get("/openapi.json")
        pages = [await client.get(path) for path in ("/docs", "/redoc")]

    paths = described.json()["paths"]
    chat = paths["/v1/chat/completions"]["post"]
    assert chat["requestBody"]["required"]
    assert set(chat["responses"]["200"]["content"]) == {"application/json", "text/event-stream"}
    assert "default" in chat["responses"]
    assert [page.status_code for page in pages] == [404, 404]


def test_every_route_is_described_once() -> None:
    paths = app_of(make_service()).openapi()["paths"]

    for path in ("chat/completions", "completions", "models", "tokenize", "detokenize", "health", "ready", "ledger"):
        assert f"/v1/{path}" in paths
