from math import hypot, inf, sqrt

import pytest

from engine.request import Delta, End, FinishReason, Usage
from server.render.embeddings import Embeddings
from server.wire.embeddings import EmbeddingRequest


def part(*values: float, tokens: int = 1) -> Delta:
    return Delta(0, end=End(FinishReason.LENGTH, Usage(tokens, 0, 0)), embedding=values)


def embedding(*values: float, **fields: object) -> list[float] | str:
    body = EmbeddingRequest.model_validate({"model": "m", "input": "x", **fields})
    [one] = Embeddings(body).whole({(0, 0): part(*values)})["data"]
    return one["embedding"]


def test_an_embedding_is_scaled_to_length_1() -> None:
    values = embedding(3.0, 4.0)

    assert values == pytest.approx([0.6, 0.8])


def test_long_and_short_ones_do_not_overflow_on_the_way() -> None:
    for size in (1e200, 1e-200):
        values = embedding(size, -size)
        assert isinstance(values, list)
        assert hypot(*values) == pytest.approx(1.0, abs=1e-6)
        assert inf not in values


def test_one_that_has_no_length_stays() -> None:
    assert embedding(0.0, 0.0) == [0.0, 0.0]


def test_values_are_those_that_float32_has() -> None:
    values = embedding(0.1, normalize=False)

    assert values != [0.1]
    assert values == pytest.approx([0.1], rel=1e-7)


def test_embeddings_come_in_the_order_of_their_inputs() -> None:
    body = EmbeddingRequest(model="m", input=["a", "b"], normalize=False)

    whole = Embeddings(body).whole({(1, 0): part(2.0, tokens=5), (0, 0): part(sqrt(4), tokens=3)})

    assert [one["index"] for one in whole["data"]] == [0, 1]
    assert whole["usage"] == {"prompt_tokens": 8, "total_tokens": 8}
