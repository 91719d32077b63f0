"""Models, tokens, probes and the ledger."""

import re

import pytest

from server.prompt import MAX_COUNTED
from server.service import Service
from tests.fakes import CONTEXT, TEMPLATE, FakeEngine, FakeTokenizer, Script, make_service, make_settings
from tests.http.clients import client_of

pytestmark = pytest.mark.anyio


async def test_the_model_is_listed_under_every_name() -> None:
    async with client_of(make_service()) as client:
        answer = (await client.get("/v1/models")).json()

    assert answer["object"] == "list"
    assert [(model["id"], model["root"]) for model in answer["data"]] == [
        ("org/tiny", "org/tiny"),
        ("gpt-4o", "org/tiny"),
    ]
    assert {model["max_model_len"] for model in answer["data"]} == {CONTEXT}


@pytest.mark.parametrize(
    "path", ["/v1/models/org/tiny", "/v1/models/org%2Ftiny", "/models/org/tiny", "/v1/models/gpt-4o"]
)
async def test_one_model_is_found_by_an_id_with_slashes(path: str) -> None:
    async with client_of(make_service()) as client:
        answer = await client.get(path)

    assert answer.status_code == 200
    assert answer.json()["id"] in ("org/tiny", "gpt-4o")


@pytest.mark.parametrize("path", ["/v1/models/nope", "/v1/models/org", "/v1/models/org/tiny/x", "/v1/models/"])
async def test_another_id_is_404(path: str) -> None:
    async with client_of(make_service()) as client:
        answer = await client.get(path)

    assert (answer.status_code, answer.json()["error"]["code"]) == (404, "model_not_found")


async def test_text_becomes_tokens_and_tokens_text() -> None:
    async with client_of(make_service()) as client:
        tokens = (await client.post("/tokenize", json={"model": "org/tiny", "prompt": "hé"})).json()
        back = (await client.post("/v1/detokenize", json={"model": "gpt-4o", "tokens": tokens["tokens"]})).json()
        control = (await client.post("/detokenize", json={"tokens": [257, 97]})).json()

    assert tokens == {"tokens": [104, 195, 169], "count": 3, "max_model_len": CONTEXT}
    assert back == {"prompt": "hé"}
    assert control == {"prompt": "<eos>a"}


async def test_messages_become_the_tokens_that_a_chat_would_have() -> None:
    tokenizer = FakeTokenizer()
    messages = [{"role": "developer", "content": [{"type": "text", "text": "be "}, {"type": "text", "text": "brief"}]}]

    async with client_of(make_service(tokenizer=tokenizer)) as client:
        answer = (await client.post("/tokenize", json={"messages": messages, "return_token_strs": True})).json()

    assert answer["tokens"] == list(b"be brief")
    assert "".join(answer["token_strs"]) == "be brief"
    assert tokenizer.calls[0]["messages"] == [{"role": "system", "content": "be brief"}]


TOOLS = [{"type": "function", "function": {"name": "f"}}, {"type": "web_search"}]


@pytest.mark.parametrize("template", [TEMPLATE, "{{ messages }} {{ enable_thinking }}"])
@pytest.mark.parametrize(
    "fields",
    [{}, {"tools": TOOLS}, {"tools": TOOLS, "tool_choice": "none"}, {"reasoning_effort": "none"}],
)
async def test_a_conversation_that_is_counted_is_the_one_that_is_answered(
    template: str, fields: dict[str, object]
) -> None:
    tokenizer = FakeTokenizer(chat_template=template)
    body = {"model": "org/tiny", "messages": [{"role": "user", "content": "x"}], "max_tokens": 1, **fields}

    async with client_of(make_service(tokenizer=tokenizer)) as client:
        await client.post("/tokenize", json=body)
        await client.post("/v1/chat/completions", json=body)

    counted, answered = tokenizer.calls
    assert counted == answered


async def test_a_text_that_takes_gigabytes_to_tokenize_is_refused_with_the_numbers() -> None:
    text = "x" * (MAX_COUNTED + 1)

    async with client_of(make_service()) as client:
        for body, param in (
            ({"prompt": text}, "prompt"),
            ({"messages": [{"role": "user", "content": text}]}, "messages"),
        ):
            answer = await client.post("/tokenize", json=body)
            assert answer.status_code == 400
            assert answer.json()["error"]["param"] == param
            assert str(MAX_COUNTED) in answer.json()["error"]["message"]


@pytest.mark.parametrize(
    ("path", "body", "param"),
    [
        ("/tokenize", {}, "prompt"),
        ("/tokenize", {"prompt": "x", "tools": TOOLS}, "tools"),
        ("/tokenize", {"prompt": "x", "chat_template": "x"}, "chat_template"),
        ("/tokenize", {"prompt": "x", "chat_template_kwargs": {"a": 1}}, "chat_template_kwargs"),
        ("/tokenize", {"messages": [{"role": "user", "content": "x"}], "tool_choice": "required"}, "tool_choice"),
        ("/tokenize", {"prompt": "x", "messages": [{"role": "user", "content": "x"}]}, "messages"),
        ("/tokenize", {"prompt": 5}, "prompt"),
        ("/tokenize", {"messages": []}, "messages"),
        ("/tokenize", {"messages": [{"role": "user", "content": "x"}], "chat_template": "x"}, "chat_template"),
        ("/detokenize", {}, "tokens"),
        ("/detokenize", {"tokens": [258]}, "tokens"),
        ("/detokenize", {"tokens": [-1]}, "tokens"),
        ("/detokenize", {"tokens": [True]}, "tokens[0]"),
        ("/detokenize", {"tokens": "x"}, "tokens"),
    ],
)
async def test_a_wrong_field_is_400_and_named(path: str, body: dict[str, object], param: str) -> None:
    async with client_of(make_service()) as client:
        answer = await client.post(path, json=body)

    assert (answer.status_code, answer.json()["error"]["param"]) == (400, param)


@pytest.mark.parametrize("path", ["/tokenize", "/detokenize"])
async def test_tokens_of_an_unknown_model_are_404(path: str) -> None:
    async with client_of(make_service()) as client:
        answer = await client.post(path, json={"model": "nope", "prompt": "x", "tokens": [1]})

    assert answer.status_code == 404


async def test_a_server_that_serves_is_healthy_and_ready() -> None:
    async with client_of(make_service()) as client:
        health, ready, version = [await client.get(path) for path in ("/health", "/ready", "/version")]

    assert (health.status_code, health.json()) == (200, {"status": "ok"})
    assert (ready.status_code, ready.json()) == (200, {"status": "ready"})
    assert set(version.json()) == {"version"}


def dead() -> Service:
    service = make_service()
    service.fail()
    return service


@pytest.mark.parametrize(
    ("service", "health", "code"),
    [
        (Service(make_settings()), 200, "model_loading"),
        (make_service(FakeEngine(accepting=False)), 200, "draining"),
        (make_service(FakeEngine(stalled=True)), 200, "stalled"),
        (dead(), 503, "engine_stopped"),
    ],
)
async def test_ready_and_the_metrics_say_why_it_is_not_and_health_only_that_the_engine_is_dead(
    service: Service, health: int, code: str
) -> None:
    async with client_of(service) as client:
        alive, ready, metrics = [await client.get(path) for path in ("/health", "/ready", "/metrics")]

    assert alive.status_code == health
    assert re.findall(r"^tidemark_server_state\{.*state=\"(\w+)\"\} 1.0$", metrics.text, re.MULTILINE) == [code]
    assert (ready.status_code, ready.json()["error"]["code"]) == (503, code)
    assert int(ready.headers["retry-after"]) > 0


async def test_while_the_model_loads_nothing_is_listed() -> None:
    async with client_of(Service(make_settings())) as client:
        answers = [await client.get(path) for path in ("/v1/models", "/v1/models/org/tiny", "/ledger", "/ledger/x")]

    assert [answer.status_code for answer in answers] == [503] * 4


async def test_the_ledger_shows_marks_and_blocks() -> None:
    engine = FakeEngine(script=lambda _request, _choice: Script())
    service = make_service(engine)
    async with client_of(service) as client:
        body = {"model": "org/tiny", "prompt": ["ab", "cde"], "max_tokens": 1}
        id = (await client.post("/v1/completions", json=body)).json()["id"]
        for stream in engine.opened:
            stream.closed = False  # as if they ran still

        pool = (await client.get("/ledger")).json()
        one = (await client.get(f"/v1/ledger/{id}")).json()
        none = await client.get("/ledger/cmpl-0")

    assert pool["pool"] == {
        "block_size": 16,
        "capacity": 8,
        "free": 5,
        "allocated": 1,
        "shared": 1,
        "cached": 1,
        "tail_positions": 3,
    }
    assert pool["positions"]["published"] == 6
    assert [sequence["request_id"] for sequence in one["sequences"]] == [f"{id}-0", f"{id}-1"]
    first = one["sequences"][0]
    assert [first[mark] for mark in ("planned", "computed", "accepted", "published")] == [2, 2, 3, 2]
    assert first["blocks"] == [{"id": 0, "owners": 1}, {"id": 3, "owners": 2}]
    assert (none.status_code, none.json()["error"]["code"]) == (404, "request_not_found")
