"""Embeddings over the fake engine, which makes of an input its first token, its number of tokens, and how it pools."""

import asyncio
import base64
import struct
from math import hypot
from typing import Any

import httpx
import pytest

from engine.errors import QueueFull, StepFailed
from engine.request import Pooling
from server.recorder import Endpoint, Outcome
from server.rules import MAX_EMBEDDING_INPUTS
from tests.fakes import BOS, CONTEXT, FakeEngine, FakeTokenizer, Script, make_service, make_settings
from tests.http.clients import client_of, listening
from tests.http.test_disconnects import aborted, stuck, until

Body = dict[str, Any]
PATH = "/v1/embeddings"
pytestmark = pytest.mark.anyio


def body(**fields: object) -> Body:
    return {"model": "org/tiny", "input": "hi", "normalize": False, **fields}


async def post(asked: Body, engine: FakeEngine | None = None, *, path: str = PATH) -> httpx.Response:
    async with client_of(make_service(engine or FakeEngine())) as client:
        return await client.post(path, json=asked)


async def embeddings(asked: Body, engine: FakeEngine | None = None) -> list[Any]:
    answer = await post(asked, engine)
    assert answer.status_code == 200, answer.text
    data = answer.json()["data"]
    assert [each["index"] for each in data] == list(range(len(data)))
    return [each["embedding"] for each in data]


@pytest.mark.parametrize("path", [PATH, "/embeddings"])
async def test_an_embedding_has_openais_shape(path: str) -> None:
    answer = await post(body(), path=path)

    assert answer.json() == {
        "object": "list",
        "data": [{"object": "embedding", "index": 0, "embedding": [104.0, 2.0, 0.0]}],
        "model": "org/tiny",
        "usage": {"prompt_tokens": 2, "total_tokens": 2},
    }


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("hi", [[104.0, 2.0, 0.0]]),
        (["hi", "abc"], [[104.0, 2.0, 0.0], [97.0, 3.0, 0.0]]),
        ([7, 8, 9], [[7.0, 3.0, 0.0]]),
        ([[7, 8], [9]], [[7.0, 2.0, 0.0], [9.0, 1.0, 0.0]]),
        ([5], [[5.0, 1.0, 0.0]]),
    ],
)
async def test_inputs_are_texts_or_tokens_one_or_several(given: object, expected: list[list[float]]) -> None:
    assert await embeddings(body(input=given)) == expected


async def test_the_engine_is_asked_for_prompts_and_chooses_nothing() -> None:
    engine = FakeEngine()

    await embeddings(body(input=["a", "b"], pooling="mean", cache_salt="mine", priority=3), engine)

    assert [request.pooling for request in engine.requests] == [Pooling.MEAN] * 2
    assert all(request.chooses_nothing for request in engine.requests)
    assert {(request.salt, request.priority, request.num_choices) for request in engine.requests} == {("mine", 3, 1)}
    assert len({request.id for request in engine.requests}) == 2


@pytest.mark.parametrize(("fields", "last"), [({}, 0.0), ({"pooling": None}, 0.0), ({"pooling": "mean"}, 2.0)])
async def test_the_last_token_is_pooled_unless_the_mean_is_asked_for(fields: Body, last: float) -> None:
    assert await embeddings(body(**fields)) == [[104.0, 2.0, last]]


@pytest.mark.parametrize("fields", [{}, {"normalize": None}, {"normalize": True}])
async def test_embeddings_have_length_1_unless_that_is_not_wanted(fields: Body) -> None:
    [values] = await embeddings({"model": "org/tiny", "input": "hi", **fields})

    assert hypot(*values) == pytest.approx(1.0, abs=1e-6)
    assert values[0] / values[1] == pytest.approx(52.0)


async def test_base64_holds_the_same_values_as_little_endian_float32() -> None:
    asked = {"model": "org/tiny", "input": ["hi", "there"], "user": "somebody"}
    numbers = await embeddings(asked | {"encoding_format": "float"})

    texts = await embeddings(asked | {"encoding_format": "base64"})

    assert [list(struct.unpack("<3f", base64.b64decode(text))) for text in texts] == numbers


async def test_the_model_s_own_dimensions_may_be_named_and_no_others() -> None:
    assert await embeddings(body(dimensions=3)) == [[104.0, 2.0, 0.0]]

    error = (await post(body(dimensions=256))).json()["error"]

    assert error["param"] == "dimensions"
    assert "256" in error["message"]
    assert "3 values" in error["message"]


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"input": ""}, "input"),
        ({"input": ["a", ""]}, "input"),
        ({"input": []}, "input"),
        ({"input": [[]]}, "input"),
        ({"input": [[1], []]}, "input"),
        ({"input": None}, "input"),
        ({"input": 5}, "input"),
        ({"input": {"text": "a"}}, "input"),
        ({"input": ["a", 5]}, "input[1]"),
        ({"input": [5, "a"]}, "input[1]"),
        ({"input": [True]}, "input"),
        ({"input": [1.5]}, "input"),
        ({"input": [1, 999_999]}, "input"),
        ({"input": [[1], [-1]]}, "input"),
        ({"input": ["a"] * (MAX_EMBEDDING_INPUTS + 1)}, "input"),
        ({"encoding_format": "hex"}, "encoding_format"),
        ({"dimensions": 0}, "dimensions"),
        ({"dimensions": "3"}, "dimensions"),
        ({"pooling": "cls"}, "pooling"),
        ({"normalize": 1}, "normalize"),
        ({"user": 5}, "user"),
    ],
)
async def test_what_is_wrong_is_400_and_names_its_field(fields: Body, param: str) -> None:
    engine = FakeEngine()

    answer = await post(body(**fields), engine)

    assert answer.status_code == 400, answer.text
    assert answer.json()["error"]["param"] == param
    assert "prompt" not in answer.json()["error"]["message"], "there is no such field here"
    assert len(answer.content) <= 4096
    assert engine.opened == []


async def test_without_an_input_or_with_another_model_nothing_runs() -> None:
    missing = await post({"model": "org/tiny"})
    unknown = await post(body(model="text-embedding-3-small"))

    assert (missing.status_code, missing.json()["error"]["param"]) == (400, "input")
    assert (unknown.status_code, unknown.json()["error"]["code"]) == (404, "model_not_found")


@pytest.mark.parametrize("given", ["x" * (CONTEXT + 1), ["a", "x" * (CONTEXT + 1)], [7] * (CONTEXT + 1)])
async def test_an_input_beyond_the_context_refuses_them_all(given: object) -> None:
    engine = FakeEngine()

    answer = await post(body(input=given), engine)

    error = answer.json()["error"]
    assert (answer.status_code, error["code"], error["param"]) == (400, "context_length_exceeded", "input")
    assert str(CONTEXT) in error["message"]
    assert str(CONTEXT + 1) in error["message"]
    assert error["message"].startswith("the input has")
    assert engine.opened == []


async def test_an_input_may_fill_the_context() -> None:
    assert await embeddings(body(input="x" * CONTEXT)) == [[120.0, float(CONTEXT), 0.0]]


async def test_special_tokens_are_added_as_for_any_prompt() -> None:
    class Marking(FakeTokenizer):
        def encode(self, text: str, *, add_special_tokens: bool) -> list[int]:
            return [*([BOS] if add_special_tokens else []), *super().encode(text, add_special_tokens=False)]

    async with client_of(make_service(tokenizer=Marking())) as client:
        marked = (await client.post(PATH, json=body())).json()["data"][0]["embedding"]
        plain = (await client.post(PATH, json=body(add_special_tokens=False))).json()["data"][0]["embedding"]

    assert (marked[:2], plain[:2]) == ([256.0, 3.0], [104.0, 2.0])


async def test_many_inputs_are_embedded_in_their_order() -> None:
    inputs = [[number % 250, 1] for number in range(300)]

    values = await embeddings(body(input=inputs))

    assert values == [[float(number % 250), 2.0, 0.0] for number in range(300)]


async def test_a_full_queue_is_429() -> None:
    engine = FakeEngine(refusal=QueueFull(waiting=4, limit=4, retry_after_seconds=1))

    answer = await post(body(input=["a", "b"]), engine)

    assert (answer.status_code, answer.headers["retry-after"]) == (429, "1")


async def test_a_failure_on_one_input_is_the_answer_and_ends_the_others() -> None:
    failing = Script(failure=StepFailed(request_id="x", cause="secret"))
    engine = FakeEngine(script=lambda request, _: failing if request.prompt == (98,) else Script(gate=asyncio.Event()))

    answer = await post(body(input=["a", "b", "c"]), engine)

    assert (answer.status_code, answer.json()["error"]["code"]) == (500, "step_failed")
    assert "secret" not in answer.text
    assert all(stream.closed for stream in engine.opened)


async def test_a_client_that_leaves_ends_all_its_inputs() -> None:
    engine = stuck(at=0)
    service = make_service(engine)

    async with listening(service) as url, httpx.AsyncClient(base_url=url) as client:
        async with asyncio.TaskGroup() as group:
            asking = group.create_task(client.post(PATH, json=body(input=["a", "b", "c"])))
            await until(lambda: len(engine.opened) == 3)
            asking.cancel()
        await until(lambda: all(stream.closed for stream in engine.opened))
        await until(lambda: aborted(service, Endpoint.EMBEDDINGS) == 1)


async def test_embeddings_are_counted_with_their_tokens() -> None:
    service = make_service()

    async with client_of(service) as client:
        await client.post(PATH, json=body(input=["hi", "there"]))
        await client.post(PATH, json=body(input=""))

    view = service.requests.view()
    assert view.totals[Endpoint.EMBEDDINGS, Outcome.FINISHED] == 1
    assert view.totals[Endpoint.EMBEDDINGS, Outcome.REFUSED] == 1
    assert (view.prompt_tokens.sum, view.generated_tokens.sum) == (7.0, 0.0)


async def test_embeddings_need_a_key_where_there_are_keys() -> None:
    service = make_service(settings=make_settings(api_keys=("k",)))

    async with client_of(service) as client:
        answer = await client.post(PATH, json=body())

    assert answer.status_code == 401
