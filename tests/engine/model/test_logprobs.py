import math

import pytest
import torch

from engine.model.logprobs import token_logprobs


def test_a_token_s_logprob_is_its_share_of_the_raw_logits() -> None:
    logits = torch.tensor([[0.0, math.log(3.0), 0.0], [0.0, 0.0, math.log(2.0)]])

    first, second = token_logprobs(logits, [1, 0], [0, 0])

    assert first.token == 1
    assert first.logprob == pytest.approx(math.log(3 / 5))
    assert second.logprob == pytest.approx(math.log(1 / 4))
    assert first.top == second.top == ()


def test_the_best_tokens_come_best_first_and_equals_by_id() -> None:
    logits = torch.tensor([[1.0, 3.0, 2.0, 3.0, 2.0, 2.0]])

    for num_top in range(7):
        (found,) = token_logprobs(logits, [0], [num_top])

        assert [token for token, _ in found.top] == [1, 3, 2, 4, 5, 0][:num_top]


def test_rows_may_ask_for_different_numbers_of_best_tokens() -> None:
    logits = torch.arange(12.0).view(3, 4)

    found = token_logprobs(logits, [0, 1, 2], [2, 0, 4])

    assert [len(each.top) for each in found] == [2, 0, 4]
    assert found[0].top[0] == (3, found[0].top[0][1])


def test_more_than_the_vocabulary_gives_the_vocabulary() -> None:
    (found,) = token_logprobs(torch.tensor([[0.0, 1.0]]), [0], [20])

    assert [token for token, _ in found.top] == [1, 0]


def test_an_impossible_token_has_minus_infinity() -> None:
    (found,) = token_logprobs(torch.tensor([[0.0, -math.inf, 0.0]]), [1], [3])

    assert found.logprob == -math.inf
    assert [token for token, _ in found.top] == [0, 2, 1]


@pytest.mark.parametrize("size", [96, 97, 4099])
@pytest.mark.parametrize("num_threads", [1, 2])
def test_a_row_s_logprobs_do_not_depend_on_the_other_rows(size: int, num_threads: int) -> None:
    torch.set_num_threads(num_threads)
    logits = torch.randn(17, size, generator=torch.Generator().manual_seed(0)) * 5

    together = token_logprobs(logits, list(range(17)), [5] * 17)

    for row in range(17):
        assert token_logprobs(logits[[row]], [row], [5]) == [together[row]]
