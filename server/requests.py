"""From a body's fields to the engine's requests: one for each prompt."""

import secrets
from collections.abc import Sequence
from dataclasses import dataclass

from engine.request import Grammar, Request, Sampling, Stopping
from server.prompt import Prompt
from server.wire.sampling import SamplingFields

SEED_BITS = 64
GREEDY_BELOW = 1e-5  # a smaller temperature divides logits into infinities and chooses the same token


@dataclass(frozen=True, slots=True)
class Wanted:
    """What the two APIs name differently. Of log-probabilities None asks for none."""

    max_tokens: int | None
    top_logprobs: int | None
    prompt_logprobs: int | None = None
    prediction: tuple[int, ...] = ()
    grammar: Grammar | None = None
    shown_special_ids: frozenset[int] = frozenset()


def requests_of(
    id: str, body: SamplingFields, prompts: Sequence[Prompt], wanted: Wanted, *, eos_ids: frozenset[int]
) -> list[Request]:
    """The engine's requests. Several of one body are told apart by a number behind the body's id."""
    stopping = stopping_of(body, max_tokens=wanted.max_tokens, eos_ids=eos_ids)
    return [
        Request(
            id=numbered(id, number, of=len(prompts)),
            prompt=prompt.tokens,
            sampling=sampling_of(body),
            stopping=stopping,
            num_choices=body.n or 1,
            top_logprobs=wanted.top_logprobs,
            prompt_logprobs=wanted.prompt_logprobs,
            skip_special_tokens=skips_special(body),
            shown_special_ids=wanted.shown_special_ids,
            salt=body.cache_salt or "",
            priority=body.priority or 0,
            prediction=wanted.prediction,
            max_draft_tokens=body.max_draft_tokens,
            grammar=wanted.grammar,
        )
        for number, prompt in enumerate(prompts)
    ]


def most_scores(*counts: int | None) -> int | None:
    """How many scores are needed where several fields ask for some, or none."""
    return max((count for count in counts if count is not None), default=None)


def numbered(id: str, number: int, *, of: int) -> str:
    """The id of one of so many requests of a body."""
    return f"{id}-{number}" if of > 1 else id


def is_of(request_id: str, id: str) -> bool:
    """Whether a request belongs to the answer of an id, as `numbered` has told them apart."""
    return request_id == id or request_id.startswith(f"{id}-")


def sampling_of(body: SamplingFields) -> Sampling:
    """How tokens are chosen. A seed that the client left out is drawn here."""
    seed = secrets.randbits(SEED_BITS) if body.seed is None else body.seed % 2**SEED_BITS
    temperature = _or(body.temperature, 1.0)
    return Sampling(
        seed=seed,
        temperature=temperature if temperature >= GREEDY_BELOW else 0.0,
        top_p=_or(body.top_p, 1.0),
        top_k=body.top_k if body.top_k is not None and body.top_k > 0 else None,
        min_p=_or(body.min_p, 0.0),
        presence_penalty=_or(body.presence_penalty, 0.0),
        frequency_penalty=_or(body.frequency_penalty, 0.0),
        repetition_penalty=_or(body.repetition_penalty, 1.0),
        logit_bias=tuple((body.logit_bias or {}).items()),
    )


def stopping_of(body: SamplingFields, *, max_tokens: int | None, eos_ids: frozenset[int]) -> Stopping:
    """When a choice ends."""
    strings = (body.stop,) if isinstance(body.stop, str) else tuple(body.stop or ())
    return Stopping(
        max_tokens=max_tokens,
        min_tokens=body.min_tokens or 0,
        strings=strings,
        token_ids=frozenset(body.stop_token_ids or ()),
        eos_ids=frozenset() if body.ignore_eos else eos_ids,
        include_stop=bool(body.include_stop_str_in_output),
    )


def skips_special(body: SamplingFields) -> bool:
    """Whether control tokens are left out of the text."""
    return body.skip_special_tokens is not False


def _or(value: float | None, default: float) -> float:
    return default if value is None else value
