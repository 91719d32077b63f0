"""From a step's logits to one result a chunk."""

from collections.abc import Iterator, Sequence
from itertools import accumulate, islice

import torch
from torch import Tensor

from engine.model.logprobs import token_logprobs
from engine.model.sampler import choose_tokens
from engine.request import TokenLogprob
from engine.step import Chunk, ChunkResult


class LogitsNotFinite(ArithmeticError):
    """The model gave logits that are no numbers, or infinite ones."""

    def __init__(self, sequence: str) -> None:
        super().__init__(f"the model gave logits that are not finite for sequence {sequence}")
        self.sequence = sequence


def answer(chunks: Sequence[Chunk], logits: Tensor) -> tuple[ChunkResult, ...]:
    """Choose and score.

    `logits` [rows, vocabulary] float32 are in the order of the chunks; of one chunk first the rows that
    are scored, then the one that a token is chosen from. Raises LogitsNotFinite.
    """
    _check_finite(chunks, logits)
    ends = list(accumulate(chunk.num_logit_rows for chunk in chunks))
    tokens = _choose(chunks, logits, ends)
    logprobs = _logprobs(chunks, logits, ends, tokens)
    return tuple(
        ChunkResult(
            chunk.ticket,
            token=token,
            scores=tuple(islice(logprobs, len(chunk.score.targets))) if chunk.score else (),
            logprob=next(logprobs) if _num_top(chunk) is not None else None,
        )
        for chunk, token in zip(chunks, tokens, strict=True)
    )


def _check_finite(chunks: Sequence[Chunk], logits: Tensor) -> None:
    if not len(logits):
        return
    finite = iter(torch.isfinite(logits.amax(-1)).tolist())
    for chunk in chunks:
        if not all(list(islice(finite, chunk.num_logit_rows))):
            raise LogitsNotFinite(chunk.ticket.sequence)


def _choose(chunks: Sequence[Chunk], logits: Tensor, ends: Sequence[int]) -> list[int | None]:
    """The chosen token of each chunk that asks for one."""
    rows = [end - 1 for chunk, end in zip(chunks, ends, strict=True) if chunk.choose is not None]
    if not rows:
        return [None] * len(chunks)
    chosen = iter(choose_tokens(logits[rows], [chunk.choose for chunk in chunks if chunk.choose is not None]))
    return [None if chunk.choose is None else next(chosen) for chunk in chunks]


def _logprobs(
    chunks: Sequence[Chunk], logits: Tensor, ends: Sequence[int], tokens: Sequence[int | None]
) -> Iterator[TokenLogprob]:
    """Log-probabilities in the order of the chunks; of one chunk its scores, then its choice's."""
    rows: list[int] = []
    asked: list[int] = []
    nums: list[int] = []
    for chunk, end, token in zip(chunks, ends, tokens, strict=True):
        first = end - chunk.num_logit_rows
        if chunk.score is not None:
            rows.extend(range(first, first + len(chunk.score.targets)))
            asked.extend(chunk.score.targets)
            nums.extend([chunk.score.top_logprobs] * len(chunk.score.targets))
        num_top = _num_top(chunk)
        if num_top is not None and token is not None:
            rows.append(end - 1)
            asked.append(token)
            nums.append(num_top)
    return iter(token_logprobs(logits[rows], asked, nums) if rows else [])


def _num_top(chunk: Chunk) -> int | None:
    return None if chunk.choose is None else chunk.choose.top_logprobs
