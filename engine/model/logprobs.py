"""Log-probabilities from raw logits, and the best tokens beside a token."""

from collections.abc import Sequence

import torch
from torch import Tensor

from engine.request import TokenLogprob


def token_logprobs(logits: Tensor, tokens: Sequence[int], num_top: Sequence[int]) -> list[TokenLogprob]:
    """For each row its token's log-probability, and its `num_top` best tokens.

    `logits` [rows, vocabulary] float32, as the model gave them. Ties go to the lowest id.
    """
    logprobs = torch.log_softmax(logits, dim=-1)
    chosen = logprobs.gather(1, torch.tensor(tokens, device=logits.device).unsqueeze(1)).squeeze(1).tolist()
    most = min(max(num_top, default=0), logits.shape[-1])
    edges = logits.topk(most, dim=-1).values.tolist() if most else [[]] * len(tokens)
    rows = zip(tokens, chosen, logits, logprobs, edges, num_top, strict=True)
    return [
        TokenLogprob(token, logprob, _best(row, shares, edge[:num])) for token, logprob, row, shares, edge, num in rows
    ]


def _best(logits: Tensor, logprobs: Tensor, highest: Sequence[float]) -> tuple[tuple[int, float], ...]:
    """The ids that have the `highest` logits, best first; `highest` says which values, but not whose they are."""
    if not highest:
        return ()
    ids = (logits >= highest[-1]).nonzero().squeeze(1)
    ids = ids[logits[ids].argsort(descending=True, stable=True)]
    return tuple(zip(ids.tolist(), logprobs[ids].tolist(), strict=True))[: len(highest)]
