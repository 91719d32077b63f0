import pytest
import torch
from torch import Tensor

from engine.model.balance import balanced
from engine.model.kernels.native import Rotary
from engine.model.structure import RotaryData

DIM = 24


def random(seed: int, spread: float = 2.0) -> Tensor:
    """Weights of which some are a hundred times others."""
    return torch.randn(DIM, generator=torch.Generator().manual_seed(seed)).mul(spread).exp()


@pytest.mark.parametrize("style", [Rotary.HALF, Rotary.INTERLEAVED])
def test_values_that_are_turned_together_share_a_factor_and_products_stay(style: Rotary) -> None:
    query, key = random(1), random(2)

    new_query, new_key = balanced(query, key, RotaryData(style, 16, None))

    factor = (new_query / query)[:16]
    pairs = factor.view(2, 8).t() if style is Rotary.HALF else factor.view(8, 2)
    torch.testing.assert_close(*pairs.unbind(1))
    torch.testing.assert_close(new_query * new_key, query * key)


@pytest.mark.parametrize("rotary", [None, RotaryData(Rotary.HALF, 16, None)])
def test_each_value_of_the_key_has_as_much_weight_as_the_query_s(rotary: RotaryData | None) -> None:
    query, key = balanced(random(1, 0.4), random(2, 0.4), rotary)

    own = slice(0 if rotary is None else rotary.dim, None)
    torch.testing.assert_close(query[own], key[own])


def test_what_the_quantized_keys_get_wrong_becomes_less() -> None:
    before = random(3), random(4)
    after = balanced(*before, None)

    assert expected_error(*after) < expected_error(*before) / 2


def expected_error(query: Tensor, key: Tensor) -> float:
    """The mean square of a product's, but for a factor: the steps are as large as the key is long."""
    return float(key.square().sum() * query.square().sum())


def test_a_shut_channel_stays_shut_and_the_others_are_numbers() -> None:
    query, key = random(1), random(2)
    query[3] = key[5] = 0

    new_query, new_key = balanced(query, key, None)

    assert new_query.isfinite().all()
    assert new_key.isfinite().all()
    assert new_query[3] == new_key[5] == 0
    assert max(float(new_query.max() / query.max()), float(new_key.max() / key.max())) < 32
    assert all(part.isfinite().all() for part in balanced(query * 0, key * 0, None))
