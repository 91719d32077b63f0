"""Anthropic's Python SDK, with its strict validation."""

from anthropic import Anthropic, AsyncAnthropic

from tests.sdks.scenarios.checks import MODEL, Checks, Servers

check = Checks()
QUESTION = [{"role": "user", "content": "What will the weather be in Lisbon?"}]
GREEDY = {"temperature": 0}  # which this SDK has no argument for any more
BRIEF = {"model": MODEL, "messages": QUESTION, "max_tokens": 24, "extra_body": GREEDY}
TOOL = {
    "name": "forecast",
    "description": "Tell the weather of some days.",
    "input_schema": {
        "type": "object",
        "properties": {"city": {"enum": ["Lisbon", "Porto"]}, "days": {"type": "integer", "minimum": 1, "maximum": 9}},
        "required": ["city", "days"],
    },
}


def client_of(url: str) -> Anthropic:
    return Anthropic(base_url=url, api_key="none", max_retries=0, _strict_response_validation=True)


@check("messages, whole and streamed")
def messages(servers: Servers) -> None:
    client = client_of(servers.real)
    whole = client.messages.create(**BRIEF, system="You answer briefly.")
    assert whole.content[0].text
    assert whole.stop_reason in ("max_tokens", "end_turn")
    assert whole.usage.output_tokens > 0
    events = list(client.messages.create(**BRIEF, system="You answer briefly.", stream=True))
    assert events[0].type == "message_start"
    assert events[-1].type == "message_stop"
    text = "".join(event.delta.text for event in events if event.type == "content_block_delta")
    assert text == whole.content[0].text


@check("`.stream()`, and asynchronous")
async def stream_helper(servers: Servers) -> None:
    with client_of(servers.real).messages.stream(**BRIEF) as stream:
        text = "".join(stream.text_stream)
        final = stream.get_final_message()
    assert final.content[0].text == text
    async with AsyncAnthropic(base_url=servers.real, api_key="none", _strict_response_validation=True) as client:
        whole = await client.messages.create(**BRIEF)
        async with client.messages.stream(**BRIEF) as stream:
            assert await stream.get_final_text() == text
    assert whole.content[0].text == text


@check("count_tokens")
def count_tokens(servers: Servers) -> None:
    client = client_of(servers.real)
    counted = client.messages.count_tokens(model=MODEL, messages=QUESTION)
    usage = client.messages.create(**BRIEF).usage
    assert counted.input_tokens == usage.input_tokens + (usage.cache_read_input_tokens or 0)


@check("a tool loop, whole and streamed")
def loop(servers: Servers) -> None:
    client = client_of(servers.scripted)
    wanted = {"model": MODEL, "max_tokens": 200, "tools": [TOOL]}
    with client.messages.stream(**wanted, messages=QUESTION) as stream:
        streamed = stream.get_final_message()
    for called in (client.messages.create(**wanted, messages=QUESTION), streamed):
        assert called.stop_reason == "tool_use"
        [call] = [block for block in called.content if block.type == "tool_use"]
        assert (call.name, call.input) == ("forecast", {"city": "Lisbon", "days": 3})
        said = {"role": "assistant", "content": [block.model_dump() for block in called.content]}
        result = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": call.id, "content": "sunny"}]}
        last = client.messages.create(**wanted, messages=[*QUESTION, said, result])
        assert last.content[0].text == "It will be sunny in Lisbon."


@check("a tool that has to be called")
def forced(servers: Servers) -> None:
    client = client_of(servers.real)
    for choice in ({"type": "any"}, {"type": "tool", "name": "forecast"}):
        wanted = {**BRIEF, "max_tokens": 200, "tools": [TOOL], "tool_choice": choice}
        answer = client.messages.create(**wanted)
        assert answer.stop_reason == "tool_use"
        assert answer.content[-1].input["city"] in ("Lisbon", "Porto")


if __name__ == "__main__":
    check.run()
