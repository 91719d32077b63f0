"""How far logits are from those of float32 arithmetic, summed over many tokens."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

NUM_TOP = 20  # of the best tokens, as many as a client may ask for


@dataclass(frozen=True, slots=True)
class Loss:
    """What one way to serve a model costs against float32 arithmetic on the same file."""

    num_tokens: int
    mean_kl: float  # in nats, of its distribution from the one of float32 arithmetic
    max_kl: float
    same_best: float  # share of the tokens
    top_change: float  # mean absolute change of the log-probabilities of float32's 20 best tokens
    perplexity: float


class Truth:
    """What float32 arithmetic says after each of some tokens; `logits` [tokens, vocabulary]."""

    def __init__(self, logits: Tensor, targets: Sequence[int]) -> None:
        self.logits = logits
        self.shares = logits.softmax(-1)
        self.best = logits.argmax(-1)
        self.top = logits.topk(min(NUM_TOP, logits.shape[-1]), dim=-1).indices
        self.targets = torch.tensor(targets).unsqueeze(1)
        self.target_logprobs = logits.log_softmax(-1).gather(1, self.targets)


class Tally:
    """Sums of one way's differences."""

    def __init__(self) -> None:
        self._kl: list[Tensor] = []
        self._same: list[Tensor] = []
        self._changes: list[Tensor] = []
        self._target_logprobs: list[Tensor] = []

    def add(self, truth: Truth, logits: Tensor) -> None:
        """Compare the logits for the same tokens.

        With p float32's distribution and d the change of a logit minus its mean under p, the divergence
        is log(1 + sum of p × (exp(d) - 1)), which small changes leave exact in float32; a log-probability
        changes by d minus the divergence.
        """
        moved = logits - truth.logits
        for _ in range(2):  # the first mean is rounded as logits are, the second as what is left of them
            moved -= (truth.shares * moved).sum(-1, keepdim=True)
        kl = (truth.shares * moved.expm1()).sum(-1, keepdim=True).log1p().clamp(min=0)
        self._kl.append(kl)
        self._same.append(logits.argmax(-1) == truth.best)
        self._changes.append((moved.gather(1, truth.top) - kl).abs())
        self._target_logprobs.append(truth.target_logprobs + moved.gather(1, truth.targets) - kl)

    def loss(self) -> Loss:
        """Means over all tokens."""
        kl = torch.cat(self._kl)
        return Loss(
            num_tokens=len(kl),
            mean_kl=_mean(kl),
            max_kl=float(kl.max()),
            same_best=_mean(torch.cat(self._same)),
            top_change=_mean(torch.cat(self._changes)),
            perplexity=float(torch.cat(self._target_logprobs).double().mean().neg().exp()),
        )


def _mean(values: Tensor) -> float:
    return float(values.double().mean())
