"""From rows of logits to chosen tokens, with torch: what the native sampler is measured by.

A row's choice depends on its own logits and request alone: sums run along a row in order of the ids
or of the values, never over the batch, and the one random number comes from a counter.
"""

from collections import Counter
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from engine.model.asks import Answer, Ask, or_allowed, uniform
from engine.model.logprobs import token_logprobs
from engine.step import Choose

NUCLEUS = 256  # values looked at first for top_p; the whole row is sorted where they do not reach it


def answer_rows(logits: Tensor, asks: Sequence[Ask]) -> list[Answer | None]:
    """Choose and score, as `asks.Sampler` has it."""
    finite = torch.isfinite(logits.amax(-1)).tolist() if len(logits) else []
    tokens = iter(_choose_asked(logits, asks))
    known = [next(tokens) if ask.choose else ask.target or 0 for ask in asks]
    scored = [row for row, ask in enumerate(asks) if ask.num_top is not None]
    nums = [num for ask in asks if (num := ask.num_top) is not None]
    logprobs = iter(token_logprobs(logits[scored], [known[row] for row in scored], nums) if scored else ())
    answers = [
        Answer(token, None if ask.num_top is None else next(logprobs)) for token, ask in zip(known, asks, strict=True)
    ]
    return [answer if good else None for answer, good in zip(answers, finite, strict=True)]


def _choose_asked(logits: Tensor, asks: Sequence[Ask]) -> list[int]:
    rows = [row for row, ask in enumerate(asks) if ask.choose]
    return choose_tokens(logits[rows], [asks[row] for row in rows]) if rows else []


def choose_tokens(logits: Tensor, asks: Sequence[Ask]) -> list[int]:
    """One token for each row of `logits` [rows, vocabulary] float32; every ask is to choose one.

    In this order: logit bias, banned ids, penalties, the mask, then the largest logit, or temperature, top_k,
    top_p, min_p and the inverse of the cumulated weights in order of the ids.
    """
    choices = [ask.choose for ask in asks if ask.choose]
    if any(_changes_logits(ask) for ask in asks):
        logits = logits.clone()
        _add_bias(logits, choices)
        _ban(logits, asks)
        _penalize(logits, choices)
        _mask(logits, asks)
    highest, tokens = logits.max(dim=-1)  # the first of equals
    possible = highest.isfinite().tolist()  # a row with nothing left to choose from has no weights either
    drawn = [row for row, choose in enumerate(choices) if possible[row] and not choose.sampling.greedy]
    if drawn:
        rows = torch.tensor(drawn, device=logits.device)
        tokens[rows] = _draw(logits[rows], [choices[row] for row in drawn])
    chosen = zip(tokens.tolist(), asks, strict=True)
    return [or_allowed(token, ask, logits.shape[-1]) for token, ask in chosen]


def _changes_logits(ask: Ask) -> bool:
    choose = ask.choose
    assert choose is not None, "who knows the token changes nothing"
    return bool(ask.mask or choose.banned or choose.sampling.logit_bias or choose.sampling.penalizes)


def _add_bias(logits: Tensor, choices: Sequence[Choose]) -> None:
    entries = [(row, token, bias) for row, choose in enumerate(choices) for token, bias in choose.sampling.logit_bias]
    if entries:
        rows, tokens, biases = (torch.tensor(values, device=logits.device) for values in zip(*entries, strict=True))
        logits.index_put_((rows, tokens), biases.float(), accumulate=True)


def _mask(logits: Tensor, asks: Sequence[Ask]) -> None:
    rows = [row for row, ask in enumerate(asks) if ask.mask is not None]
    if rows:
        packed = np.frombuffer(b"".join(ask.mask for ask in asks if ask.mask is not None), np.uint8)
        bits = np.unpackbits(packed.reshape(len(rows), -1), axis=1, count=logits.shape[-1], bitorder="little")
        refused = torch.from_numpy(bits == 0).to(logits.device)
        logits[rows] = logits[rows].masked_fill(refused, -torch.inf)


def _ban(logits: Tensor, asks: Sequence[Ask]) -> None:
    size = logits.shape[-1]  # a tokenizer's end may lie beyond the model's vocabulary
    bans = [(row, ask.choose.banned) for row, ask in enumerate(asks) if ask.choose and ask.mask is None]
    entries = [(row, token) for row, banned in bans for token in banned if token < size]
    if entries:
        logits.index_put_(tuple(torch.tensor(entries, device=logits.device).T), logits.new_tensor(-torch.inf))


def _penalize(logits: Tensor, choices: Sequence[Choose]) -> None:
    for row, choose in enumerate(choices):
        if choose.sampling.penalizes:
            _penalize_row(logits[row], choose)


def _penalize_row(logits: Tensor, choose: Choose) -> None:
    """Change one row [vocabulary] in place: what was seen is divided, what was put out is lowered."""
    sampling, counts = choose.sampling, Counter(choose.outputs)
    seen = torch.tensor(sorted(counts.keys() | set(choose.prompt)), dtype=torch.int64, device=logits.device)
    times = torch.tensor([counts[token] for token in seen.tolist()], dtype=torch.float32, device=logits.device)
    values = logits[seen]
    repeated = sampling.repetition_penalty
    values = torch.where(values > 0, values / repeated, values * repeated)
    logits[seen] = values - sampling.frequency_penalty * times - sampling.presence_penalty * (times > 0)


def _draw(logits: Tensor, choices: Sequence[Choose]) -> Tensor:
    """Draw a token for each row [rows, vocabulary]."""

    def column(values: Sequence[float]) -> Tensor:
        return torch.tensor(values, dtype=torch.float64, device=logits.device).unsqueeze(1)

    temperatures = column([choose.sampling.temperature for choose in choices])
    scaled = (logits.double() - logits.amax(-1, keepdim=True)) / temperatures
    _keep_top_k(scaled, [choose.sampling.top_k for choose in choices])
    weights = scaled.exp_()
    _keep_top_p(weights, [choose.sampling.top_p for choose in choices])
    weights.masked_fill_(weights < column([choose.sampling.min_p for choose in choices]), 0.0)  # the largest is 1
    sums = weights.cumsum(-1)
    numbers = column([uniform(c.sampling.seed, c.choice, c.output_index) for c in choices])
    tokens = torch.searchsorted(sums, numbers * sums[:, -1:], right=True).squeeze(1)
    return tokens.clamp_max_(logits.shape[-1] - 1)


def _keep_top_k(scaled: Tensor, limits: Sequence[int | None]) -> None:
    """Leave the k largest of each row that has a limit, and what equals the last of them."""
    rows = [row for row, limit in enumerate(limits) if limit is not None and limit < scaled.shape[-1]]
    if not rows:
        return
    ranks = torch.tensor([[limits[row]] for row in rows], device=scaled.device) - 1
    lowest = scaled[rows].topk(int(ranks.max()) + 1, dim=-1).values.gather(1, ranks)
    scaled[rows] = scaled[rows].masked_fill(scaled[rows] < lowest, -torch.inf)


def _keep_top_p(weights: Tensor, shares: Sequence[float]) -> None:
    """Leave the fewest largest of each row that hold its share of the sum, and what equals the last of them."""
    for row, share in enumerate(shares):
        if share < 1.0:
            wanted = share * weights[row].cumsum(-1)[-1]
            weights[row].masked_fill_(weights[row] < _nucleus_edge(weights[row], wanted), 0.0)


def _nucleus_edge(weights: Tensor, wanted: Tensor) -> Tensor:
    """The smallest weight of the nucleus of one row [vocabulary]."""
    for count in (min(NUCLEUS, len(weights)), len(weights)):
        highest = weights.topk(count).values
        reached = highest.cumsum(-1) >= wanted
        if reached[-1]:
            return highest[reached.int().argmax()]
    return highest[-1]
