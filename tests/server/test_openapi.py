from typing import Any

import pytest

from server.examples import EXAMPLES
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
async def test_the_description_is_served_and_no_page_of_the_frameworks() -> None:
    async with client_of(make_service()) as client:
        described = await client.get("/openapi.json")
        pages = [await client.get(path) for path in ("/redoc", "/docs/oauth2-redirect")]

    paths = described.json()["paths"]
    chat = paths["/v1/chat/completions"]["post"]
    assert chat["requestBody"]["required"]
    assert set(chat["responses"]["200"]["content"]) == {"application/json", "text/event-stream"}
    assert set(chat["responses"]) == {"200", "400", "401", "404", "413", "415", "429", "500", "503"}
    assert [page.status_code for page in pages] == [404, 404]


def test_every_route_is_described_once() -> None:
    paths = app_of(make_service()).openapi()["paths"]

    for path in (
        "chat/completions",
        "completions",
        "embeddings",
        "messages",
        "messages/count_tokens",
        "models",
        "tokenize",
        "detokenize",
        "health",
        "ready",
        "ledger",
    ):
        assert f"/v1/{path}" in paths


def operations() -> list[tuple[str, Json]]:
    paths = app_of(make_service()).openapi()["paths"]
    return [(path, operation) for path, methods in paths.items() for operation in methods.values()]


def test_every_error_is_described_by_its_status_and_says_when_to_come_back() -> None:
    for path, operation in operations():
        answers = operation["responses"]
        assert "default" not in answers
        assert "422" not in answers, "a client's mistake is 400"
        assert {"200", "401", "500", "503"} <= set(answers), path
        assert all("retry-after" in answers[status]["headers"] for status in ("429", "503") if status in answers)
        assert all(answer["content"] for answer in answers.values())


def test_what_can_not_be_found_is_described_where_something_is_looked_for() -> None:
    described = {path: set(operation["responses"]) for path, operation in operations()}

    assert "404" in described["/v1/models/{id}"]
    assert "404" not in described["/v1/models"]
    assert "413" not in described["/v1/models/{id}"]


def test_the_events_of_a_stream_are_described_with_the_mark_of_the_end() -> None:
    [stream] = [
        operation["responses"]["200"]["content"]["text/event-stream"]
        for path, operation in operations()
        if path == "/v1/chat/completions"
    ]

    data = stream["itemSchema"]["properties"]["data"]
    chunk, failure = data["anyOf"][0]["contentSchema"]["anyOf"]
    assert data["anyOf"][1] == {"const": "[DONE]"}
    assert "choices" in chunk["required"]
    assert failure["required"] == ["error"]
    assert "$ref" not in str(stream)


def test_every_stream_is_described_as_one_that_can_be_resumed() -> None:
    streams = {path for path, operation in operations() if "text/event-stream" in str(operation["responses"])}
    streams -= {"/v1/ledger/events"}  # what it tells is of the moment
    resumed = {
        path
        for path, operation in operations()
        if any(one["name"] == "Last-Event-ID" for one in operation.get("parameters", ()))
    }

    assert resumed == streams
    assert len(streams) == 5


def test_messages_are_described_with_anthropics_errors() -> None:
    document = app_of(make_service()).openapi()

    messages = document["paths"]["/v1/messages"]["post"]["responses"]
    [schema] = {answer["content"]["application/json"]["schema"]["$ref"] for status, answer in messages.items()} - {
        messages["200"]["content"]["application/json"]["schema"]["$ref"]
    }
    assert schema.endswith("MessagesErrorEnvelope")
    events = messages["200"]["content"]["text/event-stream"]["itemSchema"]["properties"]["data"]["contentSchema"]
    assert len(events["anyOf"]) == 7


def test_a_description_names_the_model_that_is_served_and_both_ways_to_send_a_key() -> None:
    document = app_of(make_service()).openapi()

    [parameter] = document["paths"]["/v1/models/{id}"]["get"]["parameters"]
    assert parameter["example"] == "org/tiny"
    assert {} in document["security"]
    assert set(document["components"]["securitySchemes"]) == {"bearer", "x-api-key"}


def test_every_endpoint_that_takes_a_body_has_an_example() -> None:
    described = {path: operation["requestBody"] for path, operation in operations() if "requestBody" in operation}

    assert {*EXAMPLES} == {*described}
    assert all(body["content"]["application/json"]["examples"] for body in described.values())


def test_the_description_is_made_once() -> None:
    app = app_of(make_service())

    assert app.openapi() is app.openapi()
