import orjson

from server.prompt import template_message
from server.reading.calls import write_calls
from server.reading.formats import FORMATS
from server.told import EXAMPLE, Turn, told_turns, tool_variable, tools_text, with_tools
from server.wire.chat import FunctionBody, Message

HERMES = FORMATS["hermes"]
LOOK = FunctionBody(name="look", description="looks", parameters={"type": "object", "properties": {"at": {}}})
BARE = FunctionBody(name="go")
SYSTEM: Turn = {"role": "system", "content": "be brief"}
USER: Turn = {"role": "user", "content": "hi"}


def told(*messages: dict[str, object]) -> list[Turn]:
    parsed = [Message.model_validate(message) for message in messages]
    return told_turns(parsed, [template_message(message) for message in parsed], HERMES)


def call(name: str, arguments: str) -> dict[str, object]:
    return {"id": "1", "function": {"name": name, "arguments": arguments}}


def test_tools_are_told_one_a_line_with_the_format_of_calls() -> None:
    lines = tools_text([LOOK, BARE], HERMES).splitlines()

    assert [orjson.loads(line)["function"]["name"] for line in lines[1:3]] == ["look", "go"]
    assert "\n".join(lines[-3:]) == write_calls([EXAMPLE], HERMES)


def test_every_key_of_a_tool_is_there() -> None:
    assert tool_variable(BARE) == {
        "type": "function",
        "function": {"name": "go", "description": "", "parameters": {"type": "object", "properties": {}}},
    }


def test_tools_stand_in_the_system_message() -> None:
    text = tools_text([LOOK], HERMES)

    assert with_tools([SYSTEM, USER], [LOOK], HERMES) == [SYSTEM | {"content": f"be brief\n\n{text}"}, USER]
    assert with_tools([SYSTEM | {"content": ""}], [LOOK], HERMES) == [SYSTEM | {"content": text}]
    assert with_tools([USER], [LOOK], HERMES) == [SYSTEM | {"content": text}, USER]
    assert with_tools([USER], [], HERMES) == [USER]
    assert with_tools([USER], [LOOK], HERMES, takes_system=False) == [USER | {"content": f"{text}\n\nhi"}]


def test_calls_and_results_are_text() -> None:
    turns = told(
        {"role": "user", "content": "hi"},
        {"role": "assistant", "content": "Let me.", "tool_calls": [call("look", '{"a": 1}'), call("go", "")]},
        {"role": "tool", "content": "x"},
        {"role": "tool", "content": "y"},
        {"role": "assistant", "content": None, "tool_calls": [call("look", "{bad")]},
        {"role": "tool", "content": "z"},
    )

    assert turns == [
        {"role": "user", "content": "hi"},
        {
            "role": "assistant",
            "content": 'Let me.\n<tool_call>\n{"name": "look", "arguments": {"a": 1}}\n</tool_call>\n'
            '<tool_call>\n{"name": "go", "arguments": {}}\n</tool_call>',
        },
        {"role": "user", "content": "<tool_response>\nx\n</tool_response>\n<tool_response>\ny\n</tool_response>"},
        {"role": "assistant", "content": '<tool_call>\n{"name": "look", "arguments": {bad}\n</tool_call>'},
        {"role": "user", "content": "<tool_response>\nz\n</tool_response>"},
    ]
