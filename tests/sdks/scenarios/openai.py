"""OpenAI's Python SDK, with its strict validation."""

import json
import time
from typing import Literal

import openai
from openai import AsyncOpenAI, OpenAI
from pydantic import BaseModel, Field

from tests.sdks.scenarios.checks import MODEL, Checks, Servers, raised

check = Checks()
QUESTION = [{"role": "user", "content": "What is a tide? Answer in one sentence."}]
BRIEF = {"model": MODEL, "messages": QUESTION, "max_tokens": 24, "temperature": 0}
WEATHER = [{"role": "user", "content": "What will the weather be in Lisbon?"}]
PARAMETERS = {
    "type": "object",
    "properties": {"city": {"enum": ["Lisbon", "Porto"]}, "days": {"type": "integer", "minimum": 1, "maximum": 9}},
    "required": ["city", "days"],
    "additionalProperties": False,
}
TOOL = {"type": "function", "function": {"name": "forecast", "parameters": PARAMETERS, "strict": True}}
FLAT_TOOL = {"type": "function", "name": "forecast", "parameters": PARAMETERS, "strict": True}  # as Responses has it
CALLED = {"city": "Lisbon", "days": 3}


class Report(BaseModel):
    """A forecast."""

    city: Literal["Lisbon", "Porto"]
    degrees: int = Field(ge=-20, le=50)


def client_of(url: str) -> OpenAI:
    return OpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0, _strict_response_validation=True)


def async_client_of(url: str) -> AsyncOpenAI:
    return AsyncOpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0, _strict_response_validation=True)


@check("models")
def models(servers: Servers) -> None:
    client = client_of(servers.real)
    assert MODEL in [model.id for model in client.models.list()]
    assert client.models.retrieve(MODEL).id == MODEL


@check("chat, whole and streamed")
def chat(servers: Servers) -> None:
    client = client_of(servers.real)
    whole = client.chat.completions.create(**BRIEF)
    chunks = list(client.chat.completions.create(**BRIEF, stream=True, stream_options={"include_usage": True}))
    text = whole.choices[0].message.content
    assert text
    assert text == "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
    assert chunks[-1].usage == whole.usage or chunks[-1].usage.completion_tokens == whole.usage.completion_tokens


@check("chat, asynchronous")
async def async_chat(servers: Servers) -> None:
    async with async_client_of(servers.real) as client:
        whole = await client.chat.completions.create(**BRIEF)
        stream = await client.chat.completions.create(**BRIEF, stream=True)
        text = "".join([chunk.choices[0].delta.content or "" async for chunk in stream])
    assert text == whole.choices[0].message.content


@check("`.stream()`")
async def stream_helper(servers: Servers) -> None:
    with client_of(servers.real).chat.completions.stream(**BRIEF) as stream:
        types = {event.type for event in stream}
        final = stream.get_final_completion()
    assert {"chunk", "content.delta", "content.done"} <= types
    async with async_client_of(servers.real) as client, client.chat.completions.stream(**BRIEF) as stream:
        again = await stream.get_final_completion()
    assert again.choices[0].message.content == final.choices[0].message.content


@check("`n` and log-probabilities")
def choices(servers: Servers) -> None:
    wanted = {**BRIEF, "temperature": 1.2, "seed": 4, "n": 3, "logprobs": True, "top_logprobs": 2, "max_tokens": 8}
    client = client_of(servers.real)
    whole = client.chat.completions.create(**wanted)
    assert [choice.index for choice in whole.choices] == [0, 1, 2]
    for choice in whole.choices:
        assert all(len(entry.top_logprobs) >= 2 for entry in choice.logprobs.content)
    streamed = {0: "", 1: "", 2: ""}
    for chunk in client.chat.completions.create(**wanted, stream=True):
        for choice in chunk.choices:
            streamed[choice.index] += choice.delta.content or ""
    assert streamed == {choice.index: choice.message.content for choice in whole.choices}


@check("completions, whole and streamed")
def completions(servers: Servers) -> None:
    client = client_of(servers.real)
    wanted = {"model": MODEL, "prompt": "The tide", "max_tokens": 8, "temperature": 0}
    whole = client.completions.create(**wanted, logprobs=2)
    # The null reason of all chunks but the last is OpenAI's own; its SDK's types refuse it if they are strict.
    loose = OpenAI(base_url=f"{servers.real}/v1", api_key="none", max_retries=0)
    text = "".join(chunk.choices[0].text for chunk in loose.completions.create(**wanted, stream=True))
    assert text == whole.choices[0].text


@check("a prompt's score")
def score(servers: Servers) -> None:
    loose = OpenAI(base_url=f"{servers.real}/v1", api_key="none", max_retries=0)
    answer = loose.completions.create(model=MODEL, prompt="The tide comes in.", max_tokens=0, echo=True, logprobs=1)
    first, *others = answer.choices[0].logprobs.token_logprobs
    assert first is None
    assert all(logprob < 0 for logprob in others)
    assert answer.usage.completion_tokens == 0


@check("a tool loop, whole and streamed")
def loop(servers: Servers) -> None:
    client = client_of(servers.scripted)
    wanted = {"model": MODEL, "tools": [TOOL]}
    whole = client.chat.completions.create(**wanted, messages=WEATHER)
    with client.chat.completions.stream(**wanted, messages=WEATHER) as stream:
        types = {event.type for event in stream}
        streamed = stream.get_final_completion()
    assert {"tool_calls.function.arguments.delta", "tool_calls.function.arguments.done"} <= types
    for answer in (whole, streamed):
        assert answer.choices[0].finish_reason == "tool_calls"
        [call] = answer.choices[0].message.tool_calls
        assert (call.function.name, json.loads(call.function.arguments)) == ("forecast", CALLED)
        said = answer.choices[0].message.model_dump(exclude_unset=True)
        result = {"role": "tool", "tool_call_id": call.id, "content": "sunny"}
        last = client.chat.completions.create(**wanted, messages=[*WEATHER, said, result])
        assert last.choices[0].message.content == "It will be sunny in Lisbon."


@check("tools that have to be called")
def forced(servers: Servers) -> None:
    client = client_of(servers.real)
    named = {"type": "function", "function": {"name": "forecast"}}
    allowed = {"type": "allowed_tools", "allowed_tools": {"mode": "required", "tools": [named]}}
    for choice in ("required", named, allowed):
        wanted = {"model": MODEL, "messages": WEATHER, "tools": [TOOL], "tool_choice": choice, "temperature": 0}
        with client.chat.completions.stream(**wanted) as stream:
            streamed = stream.get_final_completion()
        for answer in (client.chat.completions.create(**wanted), streamed):
            assert answer.choices[0].finish_reason == "tool_calls"
            for call in answer.choices[0].message.tool_calls:
                given = json.loads(call.function.arguments)
                assert given["city"] in ("Lisbon", "Porto")
                assert 1 <= given["days"] <= 9


@check("`.parse()` with pydantic")
async def parse(servers: Servers) -> None:
    wanted = {"model": MODEL, "messages": WEATHER, "temperature": 0}
    answer = client_of(servers.real).chat.completions.parse(**wanted, response_format=Report)
    assert isinstance(answer.choices[0].message.parsed, Report)
    async with async_client_of(servers.real) as client:
        again = await client.chat.completions.parse(**wanted, response_format=Report)
        async with client.chat.completions.stream(**wanted, response_format=Report) as stream:
            streamed = await stream.get_final_completion()
    assert again.choices[0].message.parsed == answer.choices[0].message.parsed
    assert streamed.choices[0].message.parsed == answer.choices[0].message.parsed


@check("JSON mode")
def json_mode(servers: Servers) -> None:
    wanted = {"model": MODEL, "messages": WEATHER, "temperature": 0, "max_tokens": 200}
    answer = client_of(servers.real).chat.completions.create(**wanted, response_format={"type": "json_object"})
    if answer.choices[0].finish_reason == "stop":
        assert isinstance(json.loads(answer.choices[0].message.content), dict)


@check("embeddings")
async def embeddings(servers: Servers) -> None:
    texts = ["a tide", "a ship"]
    # By itself the SDK asks for base64, which its own types refuse if they are strict.
    encoded = OpenAI(base_url=f"{servers.real}/v1", api_key="none").embeddings.create(model=MODEL, input=texts)
    floats = client_of(servers.real).embeddings.create(model=MODEL, input=texts, encoding_format="float")
    for one, other in zip(encoded.data, floats.data, strict=True):
        assert all(abs(a - b) < 1e-6 for a, b in zip(one.embedding, other.embedding, strict=True))
        assert abs(sum(value * value for value in one.embedding) - 1) < 1e-3
    async with async_client_of(servers.real) as again:
        assert len((await again.embeddings.create(model=MODEL, input="a tide", encoding_format="float")).data) == 1


@check("responses, whole and streamed")
async def responses(servers: Servers) -> None:
    client = client_of(servers.real)
    wanted = {"model": MODEL, "input": "What is a tide?", "max_output_tokens": 24, "temperature": 0}
    whole = client.responses.create(**wanted)
    assert whole.output_text
    events = list(client.responses.create(**wanted, stream=True))
    assert [event.sequence_number for event in events] == list(range(len(events)))
    assert "".join(event.delta for event in events if event.type == "response.output_text.delta") == whole.output_text
    # The helper knows no other end than a completed one.
    with client_of(servers.scripted).responses.stream(model=MODEL, input="What is a tide?") as stream:
        assert stream.get_final_response().output_text == "It will be sunny in Lisbon."
    async with async_client_of(servers.real) as again:
        assert (await again.responses.create(**wanted)).output_text == whole.output_text


@check("responses that are kept: retrieve, input items, a next turn, delete")
def kept(servers: Servers) -> None:
    client = client_of(servers.real)
    wanted = {"model": MODEL, "max_output_tokens": 16, "temperature": 0}
    first = client.responses.create(**wanted, input="What is a tide?")
    assert client.responses.retrieve(first.id).output_text == first.output_text
    [item] = client.responses.input_items.list(first.id).data
    assert item.content[0].text == "What is a tide?"
    second = client.responses.create(**wanted, input="And a ship?", previous_response_id=first.id)
    assert second.usage.input_tokens > first.usage.input_tokens
    client.responses.delete(first.id)
    raised(openai.NotFoundError, client.responses.retrieve, first.id)


@check("responses in the background, and cancelled")
def background(servers: Servers) -> None:
    client = client_of(servers.real)
    wanted = {"model": MODEL, "input": "What is a tide?", "temperature": 0, "background": True}
    begun = client.responses.create(**wanted, max_output_tokens=16)
    while begun.status in ("queued", "in_progress"):
        time.sleep(0.05)
        begun = client.responses.retrieve(begun.id)
    assert begun.output_text
    long = client.responses.create(**wanted, max_output_tokens=4000, extra_body={"ignore_eos": True})
    assert client.responses.cancel(long.id).status == "cancelled"


@check("responses that resume behind an event")
def resumed(servers: Servers) -> None:
    client = client_of(servers.real)
    wanted = {"model": MODEL, "input": "What is a tide?", "max_output_tokens": 24, "temperature": 0}
    stream = client.responses.create(**wanted, background=True, stream=True)
    seen = [event for event, _ in zip(stream, range(6), strict=False)]
    stream.close()
    last = seen[-1].sequence_number
    rest = list(client.responses.retrieve(seen[0].response.id, stream=True, starting_after=last))
    assert [event.sequence_number for event in rest] == list(range(last + 1, last + 1 + len(rest)))
    text = "".join(event.delta for event in (*seen, *rest) if event.type == "response.output_text.delta")
    assert text == client.responses.create(**wanted).output_text


@check("responses with tools, and parsed")
def responses_with_tools(servers: Servers) -> None:
    client = client_of(servers.scripted)
    wanted = {"model": MODEL, "tools": [FLAT_TOOL]}
    with client.responses.stream(**wanted, input=WEATHER) as stream:
        streamed = stream.get_final_response()
    for answer in (client.responses.create(**wanted, input=WEATHER), streamed):
        [call] = [item for item in answer.output if item.type == "function_call"]
        assert (call.name, json.loads(call.arguments)) == ("forecast", CALLED)
        result = {"type": "function_call_output", "call_id": call.call_id, "output": "sunny"}
        last = client.responses.create(**wanted, input=[result], previous_response_id=answer.id)
        assert last.output_text == "It will be sunny in Lisbon."
    parsed = client_of(servers.real).responses.parse(model=MODEL, input=WEATHER, text_format=Report, temperature=0)
    assert isinstance(parsed.output_parsed, Report)


@check("a response's input tokens")
def input_tokens(servers: Servers) -> None:
    client = client_of(servers.real)
    counted = client.responses.input_tokens.count(model=MODEL, input="What is a tide?")
    answer = client.responses.create(model=MODEL, input="What is a tide?", max_output_tokens=16)
    assert counted.input_tokens == answer.usage.input_tokens


@check("errors")
def errors(servers: Servers) -> None:
    client = client_of(servers.real)
    for wrong, kind in (({"model": "nope"}, openai.NotFoundError), ({"temperature": 9}, openai.BadRequestError)):
        for stream in (False, True):
            error = raised(kind, client.chat.completions.create, **{**BRIEF, **wrong}, stream=stream)
            assert error.body["message"]


if __name__ == "__main__":
    check.run()
