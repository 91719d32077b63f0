"""Public faults of other servers, tried at every endpoint that takes a body, whole and streamed."""

from collections.abc import Iterator
from typing import Any

import httpx
import orjson
import pytest

from server.examples import EXAMPLES
from tests.fakes import CONTEXT, FakeEngine, Script, make_service
from tests.http.clients import client_of

Body = dict[str, Any]
pytestmark = pytest.mark.anyio

JSON = {"content-type": "application/json"}
PATHS = sorted(EXAMPLES)
PROMPTS = ("messages", "prompt", "input", "tokens", "system", "instructions")  # where an endpoint's text comes in
every_endpoint = pytest.mark.parametrize("path", PATHS)


def engine() -> FakeEngine:
    return FakeEngine(script=lambda _request, _choice: Script("ok", ends=True))


def bodies_of(path: str, **fields: object) -> Iterator[Body]:
    """A body that is fine but for `fields`, whole and streamed."""
    good = {"model": "org/tiny", **EXAMPLES[path][0].body, **fields}
    yield good
    yield {**good, "stream": True}


async def answers_to(path: str, *contents: bytes, headers: dict[str, str] = JSON) -> list[httpx.Response]:
    """The answers, each followed by one that shows that the server lives."""
    service = make_service(engine())
    answers = []
    async with client_of(service) as client:
        for content in contents:
            answers.append(await client.post(path, content=content, headers=headers))
            health = await client.get("/health")
            assert health.status_code == 200
            good = next(bodies_of(path))
            assert (await client.post(path, content=orjson.dumps(good), headers=JSON)).status_code == 200
    return answers


def error_of(answer: httpx.Response) -> Body:
    """The error of an answer that is one, and small, in the envelope of its endpoint."""
    assert answer.headers["content-type"] == "application/json"
    assert len(answer.content) <= 4096
    assert b"Traceback" not in answer.content
    body = orjson.loads(answer.content)  # as valid UTF-8 as JSON has to be
    error: Body = body["error"]
    if body.get("type") == "error":
        assert {"type", "message"} <= set(error)
    else:
        assert set(error) == {"message", "type", "param", "code"}
        assert error["type"] == "invalid_request_error"
    return error


async def refused(path: str, *contents: bytes, status: int = 400, headers: dict[str, str] = JSON) -> list[Body]:
    answers = await answers_to(path, *contents, headers=headers)
    assert [answer.status_code for answer in answers] == [status] * len(contents), answers[0].text
    return [error_of(answer) for answer in answers]


@every_endpoint
@pytest.mark.parametrize(
    "content", [b"[]", b'"x"', b"{:", b"", b"null", b"5", b"\xff{}", b"[" * 100_000, b'{"a":' * 70 + b"1" + b"}" * 70]
)
async def test_a_body_that_is_no_object_is_400(path: str, content: bytes) -> None:
    await refused(path, content)


@every_endpoint
@pytest.mark.parametrize(
    "headers", [{"content-type": "text/plain"}, {"content-type": "application/json", "content-encoding": "gzip"}]
)
async def test_a_body_of_another_type_is_415(path: str, headers: dict[str, str]) -> None:
    await refused(path, *map(orjson.dumps, bodies_of(path)), status=415, headers=headers)


@every_endpoint
async def test_five_thousand_mistakes_make_one_small_error(path: str) -> None:
    many: list[object] = [{"role": 5, "content": 7, "type": 9}] * 5_000
    good = EXAMPLES[path][0].body

    for field in {*PROMPTS} & {*good}:
        await refused(path, *(orjson.dumps(body) for body in bodies_of(path, **{field: many})))


@every_endpoint
async def test_a_mistake_is_never_repeated_to_the_one_who_made_it(path: str) -> None:
    secret = "s3cret" * 1_000

    for field, value in EXAMPLES[path][0].body.items():
        wrong = {secret: secret} if isinstance(value, str) else secret
        for answer in await answers_to(path, *(orjson.dumps(body) for body in bodies_of(path, **{field: wrong}))):
            assert answer.status_code in (200, 400)  # a text may be a right value
            assert answer.status_code == 200 or secret[:30] not in str(error_of(answer))


@every_endpoint
async def test_an_unknown_model_is_404_and_the_served_ones_are_listed(path: str) -> None:
    for model in ("nope", "", "ORG/TINY"):
        for error in await refused(path, *(orjson.dumps(body) for body in bodies_of(path, model=model)), status=404):
            assert "org/tiny" in error["message"]
            assert error.get("code", "model_not_found") == "model_not_found"


@every_endpoint
async def test_a_model_of_another_type_is_400(path: str) -> None:
    models: tuple[object, ...] = (5, ["org/tiny"], {})

    await refused(path, *(orjson.dumps(body) for model in models for body in bodies_of(path, model=model)))


@every_endpoint
@pytest.mark.parametrize("number", [b"NaN", b"Infinity", b"-Infinity", b"1e999"])
async def test_a_number_that_json_has_not_is_400(path: str, number: bytes) -> None:
    contents = [orjson.dumps(body).replace(b"0.125", number) for body in bodies_of(path, temperature=0.125)]

    await refused(path, *contents)


@every_endpoint
async def test_a_lone_surrogate_is_400_or_text(path: str) -> None:
    contents = [
        orjson.dumps(body).replace(b"HERE", b"x\\ud800y")
        for field in EXAMPLES[path][0].body
        for body in bodies_of(path, **{field: "HERE"})
    ]

    for answer in await answers_to(path, *contents):
        assert answer.status_code in (200, 400)
        assert answer.content.decode()


@every_endpoint
async def test_an_unknown_field_is_ignored(path: str) -> None:
    answers = await answers_to(path, *(orjson.dumps(body) for body in bodies_of(path, foo=1, user="u")))

    assert [answer.status_code for answer in answers] == [200, 200]


@every_endpoint
async def test_a_template_of_the_clients_is_refused(path: str) -> None:
    template = "{% for i in range(10**9) %}{% for j in range(10**9) %}x{% endfor %}{% endfor %}"

    for fields in ({"chat_template": template}, {"chat_template_kwargs": {"chat_template": template}}):
        for answer in await answers_to(path, *(orjson.dumps(body) for body in bodies_of(path, **fields))):
            assert answer.status_code == (200 if path.endswith("detokenize") else 400)  # tokens have no template


@every_endpoint
async def test_a_text_beyond_the_context_is_refused_with_both_numbers_before_any_header(path: str) -> None:
    long = "x" * (CONTEXT + 1)
    good = EXAMPLES[path][0].body
    [field] = {*PROMPTS[:4]} & {*good}
    if path.endswith(("tokenize", "count_tokens", "input_tokens")):
        return  # they count what does not fit, too
    value: object = [{"role": "user", "content": long}] if field == "messages" else long

    for error in await refused(path, *(orjson.dumps(body) for body in bodies_of(path, **{field: value}))):
        assert str(CONTEXT) in error["message"]
        assert str(CONTEXT + 1) in error["message"]
