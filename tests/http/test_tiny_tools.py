"""Calls by a real engine over a tiny random model, whose marks are special tokens and whose template shows tools."""

from pathlib import Path
from typing import Any

import orjson
import pytest
from transformers import AutoTokenizer

from config.settings import ModelSettings
from tests.http.clients import chunks_of
from tests.http.test_tiny_model import CHAT, Body, posted, serving
from tests.http.test_tools import rebuilt, same
from tests.tiny import make_tiny_model_folder

pytestmark = pytest.mark.anyio
MARKS = ["[TOOL_CALLS]", "[ARGS]", "[THINK]", "[/THINK]"]  # as many as the model has rows left
TEMPLATE = """{%- for tool in tools %}{{ tool.function.name }};{% endfor %}
{%- for message in messages %}{{ message.role }}:{{ message.content }}
{%- for call in message.tool_calls %}[TOOL_CALLS]{{ call.function.name }}[ARGS]{{ call.function.arguments | tojson }}
{%- endfor %}<|im_end|>{% endfor %}"""
TOOLS = [
    {
        "type": "function",
        "function": {
            "name": name,
            "parameters": {
                "type": "object",
                "properties": {"at": {"type": "string", "maxLength": 3}, "sure": {"type": "boolean"}},
                "required": ["at", "sure"],
                "additionalProperties": False,
            },
        },
    }
    for name in ("look", "go")
]
ASKED: Body = {"model": "tiny", "messages": [{"role": "user", "content": "hello"}], "tools": TOOLS, "max_tokens": 300}


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> ModelSettings:
    folder = tmp_path_factory.mktemp("marked")
    make_tiny_model_folder(folder)
    tokenizer: Any = AutoTokenizer.from_pretrained(folder)
    tokenizer.add_special_tokens({"additional_special_tokens": MARKS})
    tokenizer.chat_template = TEMPLATE
    tokenizer.save_pretrained(folder)
    return settings_of(folder)


def settings_of(folder: Path) -> ModelSettings:
    return ModelSettings(path=str(folder), name="tiny", num_threads=1)


async def test_any_model_makes_the_calls_that_are_required(model: ModelSettings) -> None:
    async with serving(model) as client:
        for seed in range(2):
            body = ASKED | {"tool_choice": "required", "n": 2, "seed": seed, "temperature": 1.3}
            want = await posted(client, CHAT, body)
            got = chunks_of((await client.post(CHAT, json=body | {"stream": True})).text)

            for index, choice in enumerate(want["choices"]):
                assert rebuilt(got, index) == same(choice)
                assert choice["message"]["content"] is None
                assert choice["finish_reason"] in ("tool_calls", "length")
                whole = choice["message"].get("tool_calls", [])[: -1 if choice["finish_reason"] == "length" else None]
                for call in whole:
                    arguments = orjson.loads(call["function"]["arguments"])
                    assert isinstance(arguments["sure"], bool)
                    assert len(arguments["at"]) <= 3


async def test_a_named_call_ends_the_answer(model: ModelSettings) -> None:
    named = {"type": "function", "function": {"name": "go"}}
    fields = {"tool_choice": named, "temperature": 1.0}

    async with serving(model) as client:
        answers = [await posted(client, CHAT, ASKED | fields | {"seed": seed}) for seed in range(4)]

    for [choice] in (answer["choices"] for answer in answers):
        calls = choice["message"].get("tool_calls", [])
        assert choice["finish_reason"] == "length" or [call["function"]["name"] for call in calls] == ["go"]
    assert any(answer["choices"][0]["finish_reason"] == "tool_calls" for answer in answers)


async def test_a_call_goes_back_into_the_prompt(model: ModelSettings) -> None:
    call = {"id": "abcdefghi", "type": "function", "function": {"name": "look", "arguments": '{"at": "[ARGS]"}'}}
    messages = [
        *ASKED["messages"],
        {"role": "assistant", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "abcdefghi", "content": "[TOOL_CALLS]"},
    ]

    async with serving(model) as client:
        answer = await posted(client, CHAT, ASKED | {"messages": messages, "max_tokens": 1, "return_token_ids": True})

    assert [answer["prompt_token_ids"].count(id) for id in (300, 301)] == [1, 1]
