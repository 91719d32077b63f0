"""Whatever JSON a client sends, the answer is 200 or a small 4xx in the envelope, and the server lives."""

import asyncio
from typing import Any

import httpx
import orjson
from hypothesis import given, settings, strategies as st

from server.wire.base import Wire
from server.wire.chat import ChatRequest
from server.wire.completions import CompletionRequest
from server.wire.embeddings import EmbeddingRequest
from server.wire.messages import CountRequest, MessagesRequest
from server.wire.tokens import DetokenizeRequest, TokenizeRequest
from tests.fakes import make_service
from tests.http.clients import app_of

SCALARS = (
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats(allow_nan=False) | st.text(max_size=8)
)
KEYS = st.sampled_from(
    ["type", "text", "role", "content", "function", "name", "arguments", "1", "97", "", "include_usage"]
)
JSON = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3), max_leaves=6
)
PATHS: dict[str, tuple[type[Wire], dict[str, Any]]] = {
    "/v1/chat/completions": (ChatRequest, {"messages": [{"role": "user", "content": "hi"}], "max_tokens": 3}),
    "/v1/completions": (CompletionRequest, {"prompt": "hi", "max_tokens": 3}),
    "/v1/embeddings": (EmbeddingRequest, {"input": "hi"}),
    "/v1/messages": (MessagesRequest, {"messages": [{"role": "user", "content": "hi"}], "max_tokens": 3}),
    "/v1/messages/count_tokens": (CountRequest, {"messages": [{"role": "user", "content": "hi"}]}),
    "/tokenize": (TokenizeRequest, {"prompt": "hi"}),
    "/detokenize": (DetokenizeRequest, {"tokens": [104]}),
}


@st.composite
def bodies(draw: st.DrawFn) -> tuple[str, dict[str, Any]]:
    """A good body, some fields of which are anything."""
    path = draw(st.sampled_from(sorted(PATHS)))
    model, good = PATHS[path]
    wild = draw(st.dictionaries(st.sampled_from(sorted(model.model_fields)), JSON, max_size=3))
    return path, {"model": "org/tiny"} | good | wild


@st.composite
def conversations(draw: st.DrawFn) -> tuple[str, dict[str, Any]]:
    """Messages that are nearly right."""
    roles = st.sampled_from(["system", "developer", "user", "assistant", "tool", "function"])
    parts = st.lists(st.fixed_dictionaries({"type": st.sampled_from(["text", "refusal", "image_url"]), "text": JSON}))
    calls = st.lists(
        st.fixed_dictionaries({"id": JSON, "function": st.fixed_dictionaries({"name": st.text(), "arguments": JSON})})
    )
    message = st.fixed_dictionaries(
        {"role": roles}, optional={"content": st.text() | st.none() | parts, "tool_calls": calls | JSON, "name": JSON}
    )
    messages = draw(st.lists(message, max_size=3))
    return "/v1/chat/completions", {"model": "org/tiny", "messages": messages, "stream": draw(st.booleans())}


@st.composite
def blocks(draw: st.DrawFn) -> tuple[str, dict[str, Any]]:
    """Messages of blocks that are nearly right."""
    kinds = ["text", "thinking", "tool_use", "tool_result", "server_tool_use", "web_search_tool_result", "image"]
    block = st.fixed_dictionaries(
        {"type": st.sampled_from(kinds)},
        optional={
            "text": st.text(max_size=8) | JSON,
            "id": st.text(max_size=8),
            "tool_use_id": st.text(max_size=8) | JSON,
            "name": st.text(max_size=8),
            "input": st.dictionaries(KEYS, JSON, max_size=2) | JSON,
            "content": st.text(max_size=8) | JSON,
            "is_error": st.booleans(),
        },
    )
    message = st.fixed_dictionaries(
        {"role": st.sampled_from(["user", "assistant", "system", "tool"]), "content": st.text() | st.lists(block)}
    )
    messages = draw(st.lists(message, max_size=4))
    body = {"model": "org/tiny", "messages": messages, "max_tokens": 3, "stream": draw(st.booleans())}
    return "/v1/messages", body


APP = app_of(make_service())  # built once: that takes longer than an answer


async def check(path: str, body: dict[str, Any]) -> None:
    async with httpx.AsyncClient(transport=httpx.ASGITransport(APP), base_url="http://test") as client:
        answer = await client.post(path, content=orjson.dumps(body), headers={"content-type": "application/json"})
    assert answer.status_code in (200, 400, 404), answer.text
    if answer.status_code != 200:
        assert len(answer.content) <= 4096
        error = answer.json()["error"]
        if path.startswith("/v1/messages"):
            assert set(error) == {"message", "type"}
            return
        assert set(error) == {"message", "type", "param", "code"}
        assert error["param"] is None or not any(mark in error["param"] for mark in "<> ")


@settings(max_examples=400)
@given(bodies())
def test_any_value_in_any_field(request: tuple[str, dict[str, Any]]) -> None:
    asyncio.run(check(*request))


@settings(max_examples=200)
@given(conversations())
def test_any_conversation(request: tuple[str, dict[str, Any]]) -> None:
    asyncio.run(check(*request))


@settings(max_examples=200)
@given(blocks())
def test_any_blocks(request: tuple[str, dict[str, Any]]) -> None:
    asyncio.run(check(*request))
