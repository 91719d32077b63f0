"""Requests on which drafts should help much, a little, or not at all."""

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace

from benchmarks.precision.text import reference_text
from engine.request import Request, Sampling, Stopping
from engine.text import Tokenizer
from server.trace import encode_message

EDIT_EVERY = 40  # tokens of the guess, one of which is replaced, left out or doubled
QUOTE = "Repeat the following text word by word.\n\n"
TOPICS = ("a fox and a river", "the history of bread", "how tides work", "a lighthouse keeper")
GREEDY = Sampling(seed=0, temperature=0.0)
WILD = Sampling(seed=1, temperature=2.0)  # hardly a word follows from those before it


@dataclass(frozen=True, slots=True)
class Workload:
    """Requests that run at once, once with drafts and once without; `at_least` is the speed that drafts are to give."""

    title: str
    requests: tuple[Request, ...]
    at_least: float


def document(tokenizer: Tokenizer, *, num_outputs: int) -> Request:
    """A long answer, greedily: what somebody edits later."""
    return _chat(tokenizer, "Write a long article about the tides of the sea.", num_outputs)


def workloads(tokenizer: Tokenizer, answer: Sequence[int], *, num_outputs: int, num_streams: int) -> list[Workload]:
    """All of them; `answer` is that to the `document`."""
    edited = replace(document(tokenizer, num_outputs=num_outputs), prediction=with_edits(answer))
    quoting = _chat(tokenizer, QUOTE + reference_text()[: 4 * num_outputs], num_outputs)
    wild = replace(document(tokenizer, num_outputs=num_outputs), sampling=WILD, prediction=tuple(shuffled(answer)))
    crowd = [_chat(tokenizer, f"Tell me of {topic}.", num_outputs // 2) for topic in TOPICS]
    streams = tuple(
        replace(crowd[number % len(crowd)], id=str(number), sampling=Sampling(seed=number, temperature=0.7))
        for number in range(num_streams)
    )
    return [
        Workload("a document with a few words edited, guessed by `prediction`", (edited,), 2.0),
        Workload("a text that quotes its source, by prompt lookup", (quoting,), 1.3),
        Workload("random text, with a `prediction` that is all wrong", (wild,), 0.97),
        Workload(f"{num_streams} streams of chat, by prompt lookup", streams, 1.0),
    ]


def new_text(tokenizer: Tokenizer, *, num_outputs: int) -> Workload:
    """What nobody has said before, for a draft model."""
    return Workload("an answer that is new, by the draft model", (document(tokenizer, num_outputs=num_outputs),), 1.0)


def _chat(tokenizer: Tokenizer, text: str, num_outputs: int) -> Request:
    return Request("0", tuple(encode_message(tokenizer, text)), GREEDY, Stopping(max_tokens=num_outputs))


def with_edits(tokens: Sequence[int]) -> tuple[int, ...]:
    """The tokens with some replaced, some left out and some doubled, in turn."""
    edited: list[int] = []
    for place, token in enumerate(tokens, start=1):
        number, rest = divmod(place, EDIT_EVERY)
        edits = ((), (tokens[place // 2],), (token, token))
        edited.extend((token,) if rest else edits[number % len(edits)])
    return tuple(edited)


def shuffled(tokens: Sequence[int]) -> list[int]:
    """The same tokens in another order."""
    mixed = list(tokens)
    random.Random(1).shuffle(mixed)
    return mixed
