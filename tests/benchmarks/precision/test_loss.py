import math

import pytest
import torch

from benchmarks.precision.loss import Loss, Tally, Truth

SHAPE = (6, 500)
TARGETS = (3, 1, 4, 1, 5, 9)


def some_logits(*, seed: int, scale: float = 3.0) -> torch.Tensor:
    return torch.randn(SHAPE, generator=torch.Generator().manual_seed(seed)) * scale


def loss_of(truth: torch.Tensor, logits: torch.Tensor) -> Loss:
    tally = Tally()
    for first, last in ((0, 2), (2, 6)):
        tally.add(Truth(truth[first:last], TARGETS[first:last]), logits[first:last])
    return tally.loss()


def divergences(truth: torch.Tensor, logits: torch.Tensor) -> torch.Tensor:
    before, after = truth.double().log_softmax(-1), logits.double().log_softmax(-1)
    return (before.exp() * (before - after)).sum(-1)


@pytest.mark.parametrize("change", [3.0, 0.1, 1e-3])
def test_the_divergence_is_that_of_float64_for_large_and_small_changes(change: float) -> None:
    truth = some_logits(seed=0)
    logits = truth + some_logits(seed=1, scale=change)

    loss = loss_of(truth, logits)

    expected = divergences(truth, logits)
    assert loss.num_tokens == 6
    assert loss.mean_kl == pytest.approx(float(expected.mean()), rel=1e-3)
    assert loss.max_kl == pytest.approx(float(expected.max()), rel=1e-3)


def test_logits_that_are_all_higher_by_the_same_lose_nothing() -> None:
    truth = some_logits(seed=0)

    loss = loss_of(truth, truth + 7)

    assert loss.max_kl < 1e-9
    assert loss.same_best == 1
    assert loss.top_change < 1e-5


def test_perplexity_is_told_by_the_tokens_that_follow() -> None:
    truth, logits = some_logits(seed=0), some_logits(seed=1)

    loss = loss_of(truth, logits)

    entropy = torch.nn.functional.cross_entropy(logits, torch.tensor(TARGETS))
    assert loss.perplexity == pytest.approx(math.exp(float(entropy)), rel=1e-4)


def test_the_twenty_best_are_those_of_float32() -> None:
    truth = torch.zeros(6, 30)
    truth[:, :20] = 5.0
    logits = truth.clone()
    logits[:, 25] = 4.0  # of no interest but for what it takes from the twenty

    loss = loss_of(truth, logits)

    taken = float(truth[0].logsumexp(-1) - logits[0].logsumexp(-1))
    assert loss.top_change == pytest.approx(abs(taken), rel=1e-4)


def test_a_best_token_that_is_another_counts() -> None:
    truth = some_logits(seed=0)
    logits = truth.clone()
    logits[0, (int(truth[0].argmax()) + 1) % SHAPE[1]] = 100.0

    assert loss_of(truth, logits).same_best == pytest.approx(5 / 6)
