"""Structured output by the default model, through a real process."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.http.clients import Json, chunks_of
from tests.http.processes import ServerProcess

CHAT, TEXT = "/v1/chat/completions", "/v1/completions"
PERSON = {
    "type": "object",
    "properties": {"name": {"type": "string", "maxLength": 12}, "age": {"type": "integer"}},
    "required": ["name", "age"],
    "additionalProperties": False,
}


@pytest.fixture(scope="module")
def client(default_model: Path) -> Iterator[httpx.Client]:
    arguments = ("--port", "0", "--served-model-name", "m", "--engine-check-laws")
    with ServerProcess("server", "serve", str(default_model), *arguments) as server, server.ready_client() as client:
        yield client


def chat(text: str, **fields: object) -> Json:
    return {"model": "m", "messages": [{"role": "user", "content": text}], "temperature": 0, **fields}


def choice_of(client: httpx.Client, path: str, body: Json) -> Json:
    answer = client.post(path, json=body)
    assert answer.status_code == 200, answer.text
    choice: Json = answer.json()["choices"][0]
    return choice


def test_json_ends_at_its_brace_and_whitespace_does_not_go_on_for_ever(client: httpx.Client) -> None:
    body = chat("Say hi", response_format={"type": "json_object"}, max_tokens=200)

    choice = choice_of(client, CHAT, body)

    assert choice["finish_reason"] == "stop"
    assert isinstance(json.loads(choice["message"]["content"]), dict)
    assert not re.search(r"\s{35}", choice["message"]["content"])


def test_a_streamed_answer_is_the_whole_one_with_every_choice_by_the_schema(client: httpx.Client) -> None:
    schema = {"type": "json_schema", "json_schema": {"name": "person", "strict": True, "schema": PERSON}}
    body = chat("Make somebody up.", response_format=schema, n=3, seed=4, temperature=1.0, max_tokens=80, logprobs=True)

    whole = client.post(CHAT, json=body).json()["choices"]
    streamed = chunks_of(client.post(CHAT, json={**body, "stream": True}).text)

    texts = [choice["message"]["content"] for choice in whole]
    assert texts == [
        "".join(
            choice["delta"].get("content", "")
            for chunk in streamed
            for choice in chunk["choices"]
            if choice["index"] == index
        )
        for index in range(3)
    ]
    for choice in whole:
        assert choice["finish_reason"] == "stop"
        assert json.loads(choice["message"]["content"]).keys() == {"name", "age"}
        spelled = b"".join(bytes(each["bytes"]) for each in choice["logprobs"]["content"])
        assert spelled.decode() == choice["message"]["content"]


@pytest.mark.parametrize(
    ("fields", "pattern"),
    [
        ({"structured_outputs": {"choice": ["red", "green"]}}, "red|green"),
        ({"structured_outputs": {"regex": "[0-9]{3}-[0-9]{4}"}}, "[0-9]{3}-[0-9]{4}"),
        ({"guided_grammar": 'root ::= "the " ("sea" | "sky") "."'}, r"the (sea|sky)\."),
        ({"guided_json": {"const": "<|im_end|>"}}, '"<|im_end|>"'),
    ],
)
def test_a_completion_matches_what_was_asked_for(client: httpx.Client, fields: Json, pattern: str) -> None:
    choice = choice_of(client, TEXT, {"model": "m", "prompt": "It is ", "max_tokens": 30, **fields})

    assert choice["finish_reason"] == "stop"
    assert re.fullmatch(pattern.replace("|>", r"\|>").replace("<|", r"<\|"), choice["text"])


GO = {
    "begin": "<go>",
    "schema": {
        "type": "object",
        "properties": {
            "place": {"enum": ["the harbour", "the lighthouse"]},
            "hours": {"type": "integer", "maximum": 9},
        },
        "required": ["place", "hours"],
        "additionalProperties": False,
    },
    "end": "</go>",
}
CALL = re.compile(r'<go>\{"place": ?"the (harbour|lighthouse)", ?"hours": ?-?[0-9]+\}</go>')


def test_tags_in_free_text_are_the_same_streamed_and_whole_and_with_drafts_and_without(client: httpx.Client) -> None:
    tag = {"type": "structural_tag", "structures": [GO], "triggers": ["<go"]}
    format = {
        "type": "triggered_tags",
        "triggers": ["<go"],
        "tags": [{"type": "tag", **GO, "content": {"type": "json_schema", "json_schema": GO["schema"]}}],
        "at_least_one": True,
    }
    before = "".join(f'I go <go>{{"place":"the harbour","hours":{hours}}}</go> and say so.\n' for hours in (1, 2, 3, 4))
    for fields in (
        {"response_format": tag},
        {"structured_outputs": {"structural_tag": json.dumps(tag)}},
        {"response_format": {"type": "structural_tag", "format": format}},
    ):
        body = {"model": "m", "prompt": before, "max_tokens": 60, "temperature": 0, **fields}

        whole = choice_of(client, TEXT, body)["text"]
        slow = choice_of(client, TEXT, body | {"max_draft_tokens": 0})["text"]
        chunks = chunks_of(client.post(TEXT, json=body | {"stream": True}).text)
        streamed = "".join(choice["text"] for chunk in chunks for choice in chunk["choices"])

        assert whole == slow == streamed
        begun = [at.start() for at in re.finditer("<go", whole)]
        assert begun, whole
        assert [at.start() for at in CALL.finditer(whole)][: len(begun) - 1] == begun[:-1]


def test_a_tag_that_is_a_special_token_is_in_the_text(client: httpx.Client) -> None:
    tag = {
        "type": "tag",
        "begin": "<reponame>",
        "content": {"type": "regex", "pattern": "[a-z]{3}"},
        "end": "<file_sep>",
    }
    fields = {"response_format": {"type": "structural_tag", "format": tag}}

    text = choice_of(client, TEXT, {"model": "m", "prompt": "It is ", "max_tokens": 30, **fields})["text"]

    assert re.fullmatch("<reponame>[a-z]{3}<file_sep>", text)


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"structured_outputs": {"regex": "(x|y)a{40000}"}}, "[xy]a+"),
        ({"structured_outputs": {"grammar": 'start: "no"+ x{100}\nx: y{100}\ny: z{100}\nz: "e"'}}, "(no)+e*"),
    ],
)
def test_an_answer_that_has_to_go_on_for_long_ends_with_its_room(
    client: httpx.Client, fields: Json, said: str, stream: bool
) -> None:
    body = chat("Hi", max_tokens=12, stream=stream, **fields)

    if stream:
        chunks = chunks_of(client.post(CHAT, json=body).text)
        text = "".join(choice["delta"].get("content", "") for chunk in chunks for choice in chunk["choices"])
        reason = chunks[-1]["choices"][0]["finish_reason"]
    else:
        choice = choice_of(client, CHAT, body)
        text, reason = choice["message"]["content"], choice["finish_reason"]

    assert re.fullmatch(said, text)
    assert reason == "length"


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        (
            {"response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": {"type": "objekt"}}}},
            "response_format.json_schema.schema",
        ),
        ({"response_format": {"type": "json_schema", "json_schema": {"name": "x", "strict": True}}}, None),
        ({"guided_json": {"not": {}}}, "guided_json"),
        ({"guided_regex": "("}, "guided_regex"),
        ({"structured_outputs": {"grammar": "start: nothing"}}, "structured_outputs.grammar"),
        ({"guided_regex": "a" * 300_000}, "guided_regex"),
        ({"structured_outputs": {"regex": "x*a{100000000}"}}, "structured_outputs.regex"),
        ({"structured_outputs": {"regex": "(x|y)+(a{1000}){1000}{1000}"}}, "structured_outputs.regex"),
        ({"structured_outputs": {"grammar": "start: <|im_end|>"}}, "structured_outputs.grammar"),
        (
            {"response_format": {"type": "structural_tag", "structures": [GO | {"begin": "go"}], "triggers": ["<go"]}},
            "response_format.structures[0].begin",
        ),
        (
            {
                "structured_outputs": {
                    "structural_tag": {"structures": [GO | {"end": "<|im_end|>"}], "triggers": ["<go"]}
                }
            },
            "structured_outputs.structural_tag",
        ),
        ({"structured_outputs": {"grammar": 'start: "a" <[0-5]> "b"'}}, "structured_outputs.grammar"),
        ({"guided_json": {"properties": {"a": {"pattern": "^b{99999}$"}}, "required": ["a"]}}, "guided_json"),
    ],
)
def test_what_can_t_be_followed_is_refused_before_the_stream_begins(
    client: httpx.Client, fields: Json, param: str | None
) -> None:
    for stream in (False, True):
        answer = client.post(CHAT, json=chat("Hi", stream=stream, **fields))

        error = answer.json()["error"]
        assert (answer.status_code, error["type"]) == (400, "invalid_request_error")
        assert param is None or error["param"] == param
        assert len(answer.content) < 600
