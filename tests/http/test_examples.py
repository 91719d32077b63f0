"""Every example of the description is sent as it stands, to the default model."""

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.http.clients import Json
from tests.http.processes import ServerProcess


@pytest.fixture(scope="module")
def client(default_model: Path) -> Iterator[httpx.Client]:
    with ServerProcess("server", "serve", str(default_model), "--port", "0") as server, server.ready_client() as client:
        yield client


def requests_of(document: Json) -> Iterator[tuple[str, str, Json | None]]:
    """Method, path with query, and body of every example; one that needs an id is asked for where it is known."""
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            bodies = operation.get("requestBody", {}).get("content", {}).get("application/json", {}).get("examples", {})
            known = {parameter["name"]: parameter.get("example") for parameter in operation.get("parameters", [])}
            if bodies:
                yield from ((method, path, example["value"]) for example in bodies.values())
            elif "{" not in path or all(known.values()):
                asked = [
                    each for each in operation.get("parameters", []) if each["in"] == "query" and "example" in each
                ]
                query = "&".join(f"{each['name']}={each['example']}" for each in asked)
                yield method, path.format(**known) + (query and f"?{query}"), None


def test_every_example_of_the_description_answers_200(client: httpx.Client) -> None:
    examples = list(requests_of(client.get("/openapi.json").json()))

    answers = [(path, client.request(method, path, json=body)) for method, path, body in examples]

    assert {path: answer.text for path, answer in answers if answer.status_code != 200} == {}
    assert {path for path, _ in answers} >= {"/v1/chat/completions", "/v1/completions", "/v1/models", "/v1/tokenize"}
    assert all("error" not in answer.text for path, answer in answers if path == "/v1/chat/completions")
