"""From a step's logits to one result a chunk."""

from collections.abc import Iterator, Sequence
from itertools import islice

from torch import Tensor

from engine.model.asks import Answer, Ask, Sampler
from engine.request import TokenLogprob
from engine.step import Chosen, Chunk, ChunkResult, Masks, num_standing


class LogitsNotFinite(ArithmeticError):
    """The model gave logits that are no numbers, or infinite ones."""

    def __init__(self, sequence: str) -> None:
        super().__init__(f"the model gave logits that are not finite for sequence {sequence}")
        self.sequence = sequence


def answer(
    chunks: Sequence[Chunk], logits: Tensor, sampler: Sampler, masks: Masks | None = None
) -> tuple[ChunkResult, ...]:
    """Choose, as `masks` allow it, and score.

    `logits` [rows, vocabulary] float32 are in the order of the chunks; of one chunk first the rows that
    are scored, then those that tokens are chosen from. What stands behind a draft that fell is not looked at.
    Raises LogitsNotFinite.
    """
    by_chunk = masks.by_chunk if masks is not None else [()] * len(chunks)
    asks = [ask for chunk, rows in zip(chunks, by_chunk, strict=True) for ask in _asks(chunk, rows)]
    answers = iter(sampler(logits, asks))
    return tuple(_result(chunk, answers) for chunk in chunks)


def _asks(chunk: Chunk, masks: Sequence[bytes]) -> Iterator[Ask]:
    if chunk.score is not None:
        for target in chunk.score.targets:
            yield Ask(target=target, num_top=chunk.score.top_logprobs)
    if chunk.choose is not None:
        for count in range(chunk.num_chosen):
            choose = chunk.choose.after(chunk.drafts[:count]) if count else chunk.choose
            yield Ask(choose, num_top=choose.top_logprobs, mask=masks[count] if masks else None)


def _result(chunk: Chunk, answers: Iterator[Answer | None]) -> ChunkResult:
    own = list(islice(answers, chunk.num_logit_rows))
    scored = [_finite(answer, chunk) for answer in own[: len(own) - chunk.num_chosen]]
    return ChunkResult(chunk.ticket, _verified(own[len(scored) :], chunk), tuple(_logprobs(scored)))


def _verified(answers: Sequence[Answer | None], chunk: Chunk) -> tuple[Chosen, ...]:
    """What was chosen, up to the first place where it differs from the draft."""
    tokens = [None if answer is None else answer.token for answer in answers]
    found = [_finite(answer, chunk) for answer in answers[: num_standing(chunk.drafts, tokens) + 1]]
    return tuple(Chosen(answer.token, answer.logprob) for answer in found)


def _finite(answer: Answer | None, chunk: Chunk) -> Answer:
    if answer is None:
        raise LogitsNotFinite(chunk.ticket.sequence)
    return answer


def _logprobs(answers: Sequence[Answer]) -> Iterator[TokenLogprob]:
    for each in answers:
        assert each.logprob is not None, "every scored row asks for its log-probability"
        yield each.logprob
