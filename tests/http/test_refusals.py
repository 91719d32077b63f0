"""What a client does wrong is a 4xx in the envelope, before any header of a stream, and nothing runs."""

from typing import Any

import orjson
import pytest

from engine.errors import ChatTemplateFailed, Draining, NoChatTemplate, QueueFull
from server.service import Service
from tests.fakes import CONTEXT, FakeEngine, FakeTokenizer, make_service, make_settings
from tests.http.clients import client_of

Body = dict[str, Any]
CHAT, TEXT = "/v1/chat/completions", "/v1/completions"
pytestmark = pytest.mark.anyio


def chat(**fields: object) -> Body:
    return {"model": "org/tiny", "messages": [{"role": "user", "content": "hi"}], **fields}


def text(**fields: object) -> Body:
    return {"model": "org/tiny", "prompt": "hi", **fields}


async def refused(path: str, body: object, *, engine: FakeEngine | None = None, status: int = 400) -> Body:
    """The error that answers `body`, whole and streamed alike; nothing runs on and the server lives."""
    engine = engine or FakeEngine()
    service = make_service(engine)
    async with client_of(service) as client:
        whole = await client.post(path, json=body)
        streamed = await client.post(path, json={**body, "stream": True}) if isinstance(body, dict) else whole
        after = await client.post(TEXT, json=text())
    for answer in (whole, streamed):
        assert answer.status_code == status, answer.text
        assert answer.headers["content-type"] == "application/json"
        assert len(answer.content) <= 4096
    assert streamed.json()["error"]["code"] == whole.json()["error"]["code"]
    assert after.status_code == 200
    assert all(stream.closed for stream in engine.opened)
    error: Body = whole.json()["error"]
    assert set(error) == {"message", "type", "param", "code"}
    assert error["type"] == "invalid_request_error"
    return error


BOTH: list[tuple[Body, str]] = [
    ({"model": None}, "model"),
    ({"model": 5}, "model"),
    ({"n": 0}, "n"),
    ({"n": 129}, "n"),
    ({"n": True}, "n"),
    ({"n": 1.0}, "n"),
    ({"n": "1"}, "n"),
    ({"max_tokens": -1}, "max_tokens"),
    ({"max_tokens": 5.0}, "max_tokens"),
    ({"max_tokens": "5"}, "max_tokens"),
    ({"max_tokens": True}, "max_tokens"),
    ({"max_tokens": [5]}, "max_tokens"),
    ({"temperature": -0.1}, "temperature"),
    ({"temperature": 2.1}, "temperature"),
    ({"temperature": "1"}, "temperature"),
    ({"temperature": True}, "temperature"),
    ({"top_p": 0}, "top_p"),
    ({"top_p": 1.1}, "top_p"),
    ({"top_p": -1}, "top_p"),
    ({"top_k": -2}, "top_k"),
    ({"top_k": 1.5}, "top_k"),
    ({"min_p": 1.5}, "min_p"),
    ({"presence_penalty": 2.5}, "presence_penalty"),
    ({"frequency_penalty": -2.5}, "frequency_penalty"),
    ({"repetition_penalty": 0}, "repetition_penalty"),
    ({"seed": 1.5}, "seed"),
    ({"seed": "1"}, "seed"),
    ({"seed": True}, "seed"),
    ({"seed": 2**64}, "seed"),
    ({"stop": ""}, "stop"),
    ({"stop": []}, "stop"),
    ({"stop": ["a", ""]}, "stop[1]"),
    ({"stop": ["a"] * 17}, "stop"),
    ({"stop": 5}, "stop"),
    ({"stop": ["a", 5]}, "stop[1]"),
    ({"stop": {"a": 1}}, "stop"),
    ({"stop": ["x" * 5_000]}, "stop[0]"),
    ({"stop_token_ids": [1_000_000_000]}, "stop_token_ids"),
    ({"stop_token_ids": [-1]}, "stop_token_ids"),
    ({"stop_token_ids": ["1"]}, "stop_token_ids[0]"),
    ({"stop_token_ids": 1}, "stop_token_ids"),
    ({"stop_token_ids": [1] * 5_000}, "stop_token_ids"),
    ({"logit_bias": {"999999": 5}}, "logit_bias"),
    ({"logit_bias": {"AI": -100}}, "logit_bias"),
    ({"logit_bias": {"-1": 1}}, "logit_bias"),
    ({"logit_bias": {" 1": 1}}, "logit_bias"),
    ({"logit_bias": {"1_0": 1}}, "logit_bias"),
    ({"logit_bias": {"\u0663": 1}}, "logit_bias"),
    ({"logit_bias": {"": 1}}, "logit_bias"),
    ({"logit_bias": {"9" * 5_000: 1}}, "logit_bias"),
    ({"logit_bias": {"1": 101}}, "logit_bias"),
    ({"logit_bias": {"1": "5"}}, "logit_bias"),
    ({"logit_bias": {"1": True}}, "logit_bias"),
    ({"logit_bias": {"1": None}}, "logit_bias"),
    ({"logit_bias": [1]}, "logit_bias"),
    ({"logit_bias": {str(key): 1 for key in range(5_000)}}, "logit_bias"),
    ({"min_tokens": -1}, "min_tokens"),
    ({"min_tokens": 5, "max_tokens": 4}, "min_tokens"),
    ({"ignore_eos": 1}, "ignore_eos"),
    ({"skip_special_tokens": "no"}, "skip_special_tokens"),
    ({"cache_salt": 5}, "cache_salt"),
    ({"priority": "high"}, "priority"),
    ({"response_format": "json"}, "response_format"),
    ({"response_format": {"type": "yaml"}}, "response_format.type"),
    ({"response_format": {"type": "json_schema"}}, "response_format"),
    ({"response_format": {"type": "json_schema", "json_schema": {"name": "x"}}}, "response_format.json_schema.schema"),
    (
        {"response_format": {"type": "json_schema", "json_schema": {"name": "x", "strict": True, "schema": None}}},
        "response_format.json_schema.schema",
    ),
    ({"response_format": {"type": "json_object"}, "guided_regex": "a+"}, "guided_regex"),
    ({"response_format": {"type": "structural_tag"}}, "response_format"),
    ({"response_format": {"type": "structural_tag", "triggers": ["a"], "format": {}}}, "response_format"),
    ({"structured_outputs": {"structural_tag": {}}}, "structured_outputs.structural_tag"),
    (
        {"response_format": {"type": "structural_tag", "structures": [{"begin": "a"}], "triggers": ["a"]}},
        "response_format.structures[0].end",
    ),
    ({"guided_json": {}, "guided_choice": ["a"]}, "guided_choice"),
    ({"guided_json": 5}, "guided_json"),
    ({"guided_json": "{"}, "guided_json"),
    ({"guided_json": "[]"}, "guided_json"),
    ({"guided_json": "[" * 65 + "]" * 65}, "guided_json"),
    ({"guided_regex": ""}, "guided_regex"),
    ({"guided_choice": []}, "guided_choice"),
    ({"guided_choice": [""]}, "guided_choice[0]"),
    ({"guided_grammar": {}}, "guided_grammar"),
    ({"structured_outputs": {}}, "structured_outputs"),
    ({"structured_outputs": {"json_object": False}}, "structured_outputs"),
    ({"structured_outputs": {"json": {}, "regex": "a"}}, "structured_outputs"),
    ({"structured_outputs": {"json": []}}, "structured_outputs.json"),
]

FUNCTION = [{"type": "function", "function": {"name": "f"}}]

CHAT_ONLY: list[tuple[Body, str]] = [
    ({"messages": []}, "messages"),
    ({"messages": None}, "messages"),
    ({"messages": "hi"}, "messages"),
    ({"messages": ["hi"]}, "messages[0]"),
    ({"messages": [{}]}, "messages[0].role"),
    ({"messages": [{"content": "hi"}]}, "messages[0].role"),
    ({"messages": [{"role": "robot", "content": "hi"}]}, "messages[0].role"),
    ({"messages": [{"role": "function", "content": "hi"}]}, "messages[0].role"),
    ({"messages": [{"role": ["user"], "content": "hi"}]}, "messages[0].role"),
    ({"messages": [{"role": "user"}]}, "messages[0].content"),
    ({"messages": [{"role": "user", "content": None}]}, "messages[0].content"),
    ({"messages": [{"role": "system", "content": None}]}, "messages[0].content"),
    ({"messages": [{"role": "tool", "content": None}]}, "messages[0].content"),
    ({"messages": [{"role": "user", "content": []}]}, "messages[0].content"),
    ({"messages": [{"role": "user", "content": 7}]}, "messages[0].content"),
    ({"messages": [{"role": "user", "content": {"text": "hi"}}]}, "messages[0].content"),
    ({"messages": [{"role": "user", "content": ["hi"]}]}, "messages[0].content[0]"),
    ({"messages": [{"role": "user", "content": [{"text": "hi"}]}]}, "messages[0].content[0]"),
    ({"messages": [{"role": "user", "content": [{"type": 5}]}]}, "messages[0].content[0]"),
    ({"messages": [{"role": "user", "content": [{"type": "text"}]}]}, "messages[0].content[0].text"),
    ({"messages": [{"role": "user", "content": [{"type": "text", "text": 5}]}]}, "messages[0].content[0].text"),
    ({"messages": [{"role": "user", "content": "hi", "name": 5}]}, "messages[0].name"),
    ({"messages": [{"role": "assistant", "tool_calls": "x"}]}, "messages[0].tool_calls"),
    ({"messages": [{"role": "assistant", "tool_calls": [{}]}]}, "messages[0].tool_calls[0].function"),
    (
        {"messages": [{"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": 5}}]}]},
        "messages[0].tool_calls[0].function.arguments",
    ),
    ({"max_tokens": 0}, "max_tokens"),
    ({"max_completion_tokens": 0}, "max_completion_tokens"),
    ({"max_completion_tokens": 3, "min_tokens": 4, "max_tokens": 9}, "min_tokens"),
    ({"logprobs": 1}, "logprobs"),
    ({"logprobs": "true"}, "logprobs"),
    ({"top_logprobs": 5}, "top_logprobs"),
    ({"logprobs": False, "top_logprobs": 1}, "top_logprobs"),
    ({"logprobs": True, "top_logprobs": 21}, "top_logprobs"),
    ({"logprobs": True, "top_logprobs": -1}, "top_logprobs"),
    ({"tools": "x"}, "tools"),
    ({"tools": ["x"]}, "tools[0]"),
    ({"tools": [{"type": 5}]}, "tools[0]"),
    ({"tools": [{"type": "function"}]}, "tools[0].function"),
    ({"tools": [{"type": "function", "function": {"name": ""}}]}, "tools[0].function.name"),
    ({"tools": [{"type": "function", "function": {"name": "f", "parameters": []}}]}, "tools[0].function.parameters"),
    ({"parallel_tool_calls": "no"}, "parallel_tool_calls"),
    ({"tool_choice": "required", "tools": [{"type": "web_search"}]}, "tool_choice"),
    ({"tool_choice": {"type": "function", "function": {"name": "g"}}, "tools": FUNCTION}, "tool_choice"),
    ({"tool_choice": {"type": "function"}, "tools": FUNCTION}, "tool_choice.function.name"),
    ({"tool_choice": {"type": "allowed_tools"}, "tools": FUNCTION}, "tool_choice.allowed_tools"),
    (
        {"tool_choice": {"type": "allowed_tools", "mode": "any", "tools": FUNCTION}, "tools": FUNCTION},
        "tool_choice.allowed_tools",
    ),
    (
        {"tool_choice": {"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": []}}, "tools": FUNCTION},
        "tool_choice.allowed_tools",
    ),
    ({"chat_template_kwargs": {"tools": [{"type": "function"}]}}, "chat_template_kwargs.tools"),
    ({"tool_choice": "maybe"}, "tool_choice"),
    ({"tool_choice": 5}, "tool_choice"),
    ({"tool_choice": "required"}, "tool_choice"),
    ({"tool_choice": "required", "tools": []}, "tool_choice"),
    ({"tool_choice": {"type": "function", "function": {"name": "f"}}}, "tool_choice"),
    ({"modalities": "text"}, "modalities"),
    ({"prediction": "abc"}, "prediction"),
    ({"prediction": {"type": "text", "content": "abc"}}, "prediction.type"),
    ({"prediction": {"type": "content"}}, "prediction.content"),
    ({"prediction": {"type": "content", "content": [{"type": "image_url"}]}}, "prediction.content[0]"),
    ({"max_draft_tokens": -1}, "max_draft_tokens"),
    ({"max_draft_tokens": True}, "max_draft_tokens"),
    ({"chat_template": "{{ 1 }}"}, "chat_template"),
    ({"chat_template": ""}, "chat_template"),
    ({"chat_template_kwargs": {"chat_template": "{{ 1 }}"}}, "chat_template_kwargs.chat_template"),
    ({"chat_template_kwargs": [1]}, "chat_template_kwargs"),
    ({"continue_final_message": True}, "continue_final_message"),
    (
        {
            "messages": [{"role": "assistant", "content": "hi"}],
            "continue_final_message": True,
            "add_generation_prompt": True,
        },
        "continue_final_message",
    ),
]

TEXT_ONLY: list[tuple[Body, str]] = [
    ({"prompt": None}, "prompt"),
    ({"prompt": []}, "prompt"),
    ({"prompt": [[]]}, "prompt"),
    ({"prompt": [None]}, "prompt"),
    ({"prompt": 5}, "prompt"),
    ({"prompt": {"text": "x"}}, "prompt"),
    ({"prompt": ["a", 5]}, "prompt[1]"),
    ({"prompt": [5, "a"]}, "prompt[1]"),
    ({"prompt": [True]}, "prompt"),
    ({"prompt": [1, True]}, "prompt[1]"),
    ({"prompt": [1.5]}, "prompt"),
    ({"prompt": [[1], [2, "x"]]}, "prompt[1][1]"),
    ({"prompt": [[1], 2]}, "prompt[1]"),
    ({"prompt": [999_999]}, "prompt"),
    ({"prompt": [-1]}, "prompt"),
    ({"prompt": [[1], [999_999]]}, "prompt"),
    ({"logprobs": True}, "logprobs"),
    ({"logprobs": 21}, "logprobs"),
    ({"logprobs": -1}, "logprobs"),
    ({"echo": "yes"}, "echo"),
    ({"best_of": 0}, "best_of"),
]


@pytest.mark.parametrize(("fields", "param"), BOTH + CHAT_ONLY)
async def test_a_wrong_field_of_a_chat_is_400_and_named(fields: Body, param: str) -> None:
    assert (await refused(CHAT, chat(**fields)))["param"] == param


@pytest.mark.parametrize(("fields", "param"), BOTH + TEXT_ONLY)
async def test_a_wrong_field_of_a_completion_is_400_and_named(fields: Body, param: str) -> None:
    assert (await refused(TEXT, text(**fields)))["param"] == param


UNSUPPORTED_BOTH: list[tuple[Body, str]] = [
    (
        {"structured_outputs": {"structural_tag": {"format": {"type": "token", "token": 5}}}},
        "structured_outputs.structural_tag.format.type",
    ),
    ({"background": True}, "background"),
]
UNSUPPORTED_CHAT: list[tuple[Body, str]] = [
    ({"tools": FUNCTION, "tool_choice": {"type": "web_search"}}, "tool_choice"),
    ({"tools": FUNCTION, "tool_choice": {"type": "custom", "custom": {"name": "f"}}}, "tool_choice"),
    (
        {"tools": FUNCTION, "tool_choice": {"type": "allowed_tools", "mode": "auto", "tools": [{"type": "mcp"}]}},
        "tool_choice",
    ),
    ({"functions": [{"name": "f"}]}, "functions"),
    ({"function_call": {"name": "f"}}, "function_call"),
    ({"functions": [{"name": "f"}], "function_call": "auto"}, "functions"),
    (
        {"messages": [{"role": "assistant", "function_call": {"name": "f", "arguments": "{}"}}]},
        "messages[0].function_call",
    ),
    ({"messages": [{"role": "assistant", "audio": {"id": "audio_1"}}]}, "messages[0].audio"),
    ({"audio": {"voice": "alloy", "format": "wav"}}, "audio"),
    ({"modalities": ["text", "audio"]}, "modalities"),
    ({"web_search_options": {}}, "web_search_options"),
    ({"tool_choice": "none", "function_call": {"name": "f"}}, "function_call"),
    ({"prompt": "hi"}, "prompt"),
    ({"max_output_tokens": 5}, "max_output_tokens"),
    (
        {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}]},
        "messages[0].content[0]",
    ),
    (
        {"messages": [{"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "input_audio"}]}]},
        "messages[0].content[1]",
    ),
]
UNSUPPORTED_TEXT: list[tuple[Body, str]] = [
    ({"suffix": "end"}, "suffix"),
    ({"best_of": 2}, "best_of"),
    ({"best_of": 3, "n": 2}, "best_of"),
    ({"chat_template": "{{ messages }}"}, "chat_template"),
    ({"chat_template_kwargs": {"a": 1}}, "chat_template_kwargs"),
    ({"tools": FUNCTION}, "tools"),
    ({"messages": [{"role": "user", "content": "hi"}]}, "messages"),
]


@pytest.mark.parametrize(("fields", "param"), UNSUPPORTED_BOTH + UNSUPPORTED_CHAT)
async def test_what_a_chat_lacks_here_is_an_unsupported_parameter(fields: Body, param: str) -> None:
    error = await refused(CHAT, chat(**fields))

    assert (error["code"], error["param"]) == ("unsupported_parameter", param)


@pytest.mark.parametrize(("fields", "param"), UNSUPPORTED_BOTH + UNSUPPORTED_TEXT)
async def test_what_a_completion_lacks_here_is_an_unsupported_parameter(fields: Body, param: str) -> None:
    error = await refused(TEXT, text(**fields))

    assert (error["code"], error["param"]) == ("unsupported_parameter", param)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"response_format": {"type": "json_schema"}}, "response_format: needs `json_schema` beside"),
        ({"response_format": {"type": "structural_tag"}}, "response_format: needs "),
        ({"structured_outputs": {"structural_tag": {}}}, "structured_outputs.structural_tag: needs "),
        ({"messages": [{"role": "user"}]}, "messages[0].content: is required for this role"),
        (
            {"tool_choice": {"type": "function", "function": {"name": 5}}, "tools": FUNCTION},
            "tool_choice.function.name: must be a string",
        ),
    ],
)
async def test_what_is_there_is_not_called_missing(fields: Body, message: str) -> None:
    assert (await refused(CHAT, chat(**fields)))["message"].startswith(message)


async def test_what_is_counted_is_refused_as_a_chat_would_be() -> None:
    body = chat(continue_final_message=True, add_generation_prompt=False)

    assert (await refused("/tokenize", body))["param"] == "continue_final_message"


@pytest.mark.parametrize("path", [CHAT, TEXT])
async def test_stream_options_need_a_stream(path: str) -> None:
    body = (chat if path == CHAT else text)(stream_options={"include_usage": True})

    async with client_of(make_service()) as client:
        absent = await client.post(path, json=body)
        false = await client.post(path, json={**body, "stream": False})
        streamed = await client.post(path, json={**body, "stream": True})

    assert (absent.status_code, absent.json()["error"]["param"]) == (400, "stream_options")
    assert false.status_code == 400
    assert streamed.status_code == 200


@pytest.mark.parametrize("path", [CHAT, TEXT])
@pytest.mark.parametrize("stream", [1, "true", {}])
async def test_stream_is_a_boolean(path: str, stream: object) -> None:
    async with client_of(make_service()) as client:
        answer = await client.post(path, json=(chat if path == CHAT else text)(stream=stream))

    assert (answer.status_code, answer.json()["error"]["param"]) == (400, "stream")


@pytest.mark.parametrize("path", [CHAT, TEXT])
@pytest.mark.parametrize("model", ["nope", "", "org", "ORG/TINY", "x" * 100_000])
async def test_an_unknown_model_is_404_and_the_served_ones_are_listed(path: str, model: str) -> None:
    error = await refused(path, (chat if path == CHAT else text)(model=model), status=404)

    assert error["code"] == "model_not_found"
    assert "org/tiny" in error["message"]
    assert "gpt-4o" in error["message"]
    assert model == "" or model not in error["message"].replace("org/tiny", "")


@pytest.mark.parametrize("path", [CHAT, TEXT])
async def test_a_missing_model_is_400(path: str) -> None:
    body = (chat if path == CHAT else text)()
    del body["model"]

    assert (await refused(path, body))["param"] == "model"


async def test_a_prompt_that_leaves_no_room_is_400_with_both_numbers() -> None:
    prompt = "x" * (CONTEXT + 1)

    for path, body, param in (
        (CHAT, chat(messages=[{"role": "user", "content": prompt}]), "messages"),
        (TEXT, text(prompt=prompt), "prompt"),
        (TEXT, text(prompt=["x", prompt]), "prompt"),
    ):
        error = await refused(path, body)
        assert error["code"] == "context_length_exceeded"
        assert error["param"] == param
        assert str(CONTEXT) in error["message"]
        assert str(CONTEXT + 1) in error["message"]


async def test_five_thousand_wrong_messages_make_one_small_error() -> None:
    error = await refused(CHAT, chat(messages=[{"role": 5, "content": 7}] * 5_000))

    assert error["param"] == "messages[0].role"
    assert len(orjson.dumps(error)) < 300


BEYOND = "100000000000000000000"  # 64 bits


@pytest.mark.parametrize(
    ("path", "fields"),
    [
        (TEXT, '"prompt": [BEYOND]'),
        (TEXT, '"prompt": [1, BEYOND]'),
        (TEXT, '"prompt": [1, -BEYOND]'),
        (TEXT, '"prompt": [[1], [BEYOND]]'),
        (TEXT, '"prompt": "x", "stop_token_ids": [BEYOND]'),
        ("/v1/embeddings", '"input": [BEYOND]'),
        ("/detokenize", '"tokens": [BEYOND]'),
    ],
)
async def test_a_token_id_that_no_integer_holds_is_refused_as_any_other(path: str, fields: str) -> None:
    body = f'{{"model": "org/tiny", {fields.replace("BEYOND", BEYOND)}}}'

    async with client_of(make_service()) as client:
        answer = await client.post(path, content=body, headers={"content-type": "application/json"})

    message = answer.json()["error"]["message"]
    assert answer.status_code == 400
    assert BEYOND in message
    assert "0 to 257" in message


async def test_an_error_never_repeats_what_was_sent() -> None:
    secret = "s3cret" * 1_000

    for fields in (
        {"messages": [{"role": secret, "content": "x"}]},
        {"messages": [{"role": "user", "content": [{"type": secret}]}]},
        {"logit_bias": {secret: 1}},
        {"tool_choice": secret},
        {"chat_template_kwargs": {"chat_template": secret}},
        {"response_format": {"type": secret}},
        {"temperature": secret},
    ):
        error = await refused(CHAT, chat(**fields))
        assert secret[:30] not in orjson.dumps(error).decode()


@pytest.mark.parametrize("path", [CHAT, TEXT, "/tokenize", "/detokenize"])
@pytest.mark.parametrize("content", [b"[]", b'"x"', b"{:", b"", b"null", b"5", b"[" * 100_000])
async def test_a_body_that_is_no_json_object_is_400(path: str, content: bytes) -> None:
    async with client_of(make_service()) as client:
        answer = await client.post(path, content=content, headers={"content-type": "application/json"})

    assert answer.status_code == 400
    assert set(answer.json()["error"]) == {"message", "type", "param", "code"}


@pytest.mark.parametrize("path", [CHAT, TEXT, "/tokenize", "/detokenize"])
async def test_a_body_that_is_no_json_by_its_type_is_415(path: str) -> None:
    async with client_of(make_service()) as client:
        answer = await client.post(path, content=orjson.dumps(chat()), headers={"content-type": "text/plain"})

    assert answer.status_code == 415


@pytest.mark.parametrize("place", ["content", "stop", "model", "user", "name"])
async def test_a_lone_surrogate_is_400_in_valid_utf_8(place: str) -> None:
    body = orjson.dumps(
        chat(stop="STOP", user="USER", messages=[{"role": "user", "content": "CONTENT", "name": "NAME"}])
    )
    old = {"content": b"CONTENT", "stop": b"STOP", "model": b"org/tiny", "user": b"USER", "name": b"NAME"}[place]

    async with client_of(make_service()) as client:
        answer = await client.post(
            CHAT, content=body.replace(old, b"x\\ud800y"), headers={"content-type": "application/json"}
        )

    assert answer.status_code == 400
    assert answer.content.decode()


@pytest.mark.parametrize("number", [b"NaN", b"Infinity", b"-Infinity", b"1e999"])
async def test_a_number_that_json_has_not_is_400(number: bytes) -> None:
    body = orjson.dumps(chat(temperature=0.125)).replace(b"0.125", number)

    async with client_of(make_service()) as client:
        answer = await client.post(CHAT, content=body, headers={"content-type": "application/json"})

    assert answer.status_code == 400


@pytest.mark.parametrize("failure", [ChatTemplateFailed("roles must alternate"), NoChatTemplate()])
async def test_a_failing_template_is_the_clients_400(failure: Exception) -> None:
    service = make_service(tokenizer=FakeTokenizer(failure=failure))

    async with client_of(service) as client:
        whole = await client.post(CHAT, json=chat())
        streamed = await client.post(CHAT, json=chat(stream=True))
        tokenized = await client.post("/tokenize", json={"messages": chat()["messages"]})

    for answer in (whole, streamed, tokenized):
        assert answer.status_code == 400
        assert answer.json()["error"]["param"] == "messages"


async def test_an_empty_prompt_starts_from_bos_or_is_400() -> None:
    engine = FakeEngine()

    async with client_of(make_service(engine)) as client:
        with_bos = await client.post(TEXT, json=text(prompt=""))
        listed = await client.post(TEXT, json=text(prompt=[""], add_special_tokens=False))
    async with client_of(make_service(tokenizer=FakeTokenizer(bos_id=None))) as client:
        without_bos = await client.post(TEXT, json=text(prompt=""))
        normal = await client.post(TEXT, json=text())

    assert [with_bos.status_code, listed.status_code] == [200, 200]
    assert [request.prompt for request in engine.requests] == [(256,), (256,)]
    assert without_bos.status_code == 400
    assert without_bos.json()["error"]["param"] == "prompt"
    assert normal.status_code == 200


@pytest.mark.parametrize("stream", [False, True])
async def test_a_full_queue_is_429_and_says_when_to_come_back(stream: bool) -> None:
    engine = FakeEngine(refusal=QueueFull(waiting=8, limit=8, retry_after_seconds=3))

    async with client_of(make_service(engine)) as client:
        answer = await client.post(CHAT, json=chat(stream=stream))

    assert answer.status_code == 429
    assert answer.headers["retry-after"] == "3"
    assert answer.json()["error"]["code"] == "rate_limit_exceeded"


async def test_of_several_prompts_all_are_taken_or_none() -> None:
    engine = FakeEngine(refusal=QueueFull(waiting=8, limit=8, retry_after_seconds=3), refuse_after=2)

    async with client_of(make_service(engine)) as client:
        answer = await client.post(TEXT, json=text(prompt=["a", "b", "c"]))

    assert answer.status_code == 429
    assert [stream.closed for stream in engine.opened] == [True, True]


async def test_more_prompts_than_the_queue_could_ever_hold_are_400() -> None:
    error = await refused(TEXT, text(prompt=["a"] * 65))

    assert error["param"] == "prompt"
    assert "65" in error["message"]
    assert "64" in error["message"]


@pytest.mark.parametrize("path", [CHAT, TEXT])
async def test_a_server_that_drains_or_loads_or_has_died_is_503(path: str) -> None:
    body = (chat if path == CHAT else text)()
    loading = Service(make_settings())
    draining = make_service(FakeEngine(refusal=Draining(), accepting=False))
    dead = make_service()
    dead.fail()

    for service, code in ((loading, "model_loading"), (draining, "draining"), (dead, "engine_stopped")):
        async with client_of(service) as client:
            answer = await client.post(path, json=body)
        assert answer.status_code == 503
        assert answer.json()["error"]["code"] == code
        assert int(answer.headers["retry-after"]) > 0
