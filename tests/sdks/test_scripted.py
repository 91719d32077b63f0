import orjson

from tests.sdks.scripted import SENTENCE, next_said

ASKED = {"role": "user", "content": "hi"}
TOOL = {"type": "function", "function": {"name": "forecast"}}


def said(*messages: dict[str, str], tools: list[object]) -> str:
    return next_said(orjson.dumps({"messages": messages, "tools": tools}).decode())


def test_a_tool_is_called_until_it_has_answered() -> None:
    assert '"name": "forecast"' in said(ASKED, tools=[TOOL])
    assert said(ASKED, {"role": "tool", "content": "sun"}, tools=[TOOL]) == SENTENCE


def test_without_tools_or_a_conversation_there_is_a_sentence() -> None:
    assert said(ASKED, tools=[]) == SENTENCE
    assert next_said("once upon a time") == SENTENCE
