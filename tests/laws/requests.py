"""Requests that meet: shared beginnings, few seeds, every way to end, now and then one that must be refused."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import count
from math import gcd, prod
from typing import Any

from hypothesis import strategies as st

from engine.request import Pooling, Request, Sampling, Stopping
from tests.digest import EOS, LAYOUTS, VOCABULARY_SIZE
from tests.draft_model import BENDS, with_draft_model
from tests.laws.drafters import DRAFTERS
from tests.laws.shape import Shape
from tests.toy_grammar import DEAD_END, NARROW, WIDE, WRONG

TAPES = (
    (2, 3, 4, 5, 2, 3, 4, 5, 6, 7, 2, 2),
    (2, 3, 4, 5, 2, 3, 9, 8, 9, 10, 13, 14),
    (13, 14, 8, 9, 10, 8, 9, 8, 1, 16, 15, 8),
)  # the first two begin alike, and every cut may fall into a character
SAMPLINGS = (
    Sampling(seed=0, temperature=0.0),
    Sampling(seed=0, temperature=0.0, presence_penalty=0.5, frequency_penalty=0.25),
    Sampling(seed=1, temperature=1.5),
    Sampling(seed=2, temperature=1.0, repetition_penalty=1.5, logit_bias=((3, 2.0), (EOS, -4.0))),
)
STRINGS = ((), ("a",), (), ("ab", "b c"), (), ("€",), ("bcab", "c a b c a b"), ("\ufffd",))
TOKEN_IDS = (frozenset[int](), frozenset({3}), frozenset({EOS, 7}))
EOS_IDS = (frozenset({EOS}), frozenset[int]())
TAIL = range(1, VOCABULARY_SIZE)
SCATTER = 0.618  # of all combinations: small numbers, which Hypothesis prefers, then differ in every option


def one_of_each(*options: Sequence[Any]) -> st.SearchStrategy[tuple[Any, ...]]:
    """One of each of the options, drawn as a single number, so that a life has room for many; 0: the first of each."""
    total = prod(map(len, options))
    step = next(step for step in count(int(total * SCATTER)) if gcd(step, total) == 1)
    return st.integers(0, total - 1).map(lambda number: tuple(_digits(number * step % total, options)))


def _digits(number: int, options: Iterable[Sequence[Any]]) -> Iterable[Any]:
    for values in options:
        number, digit = divmod(number, len(values))
        yield values[digit]


def _prompt(parts: tuple[Any, ...]) -> tuple[int, ...]:
    tape, cut, num_more, *more = parts
    return (*tape[:cut], *more[:num_more])


prompts = one_of_each(TAPES, range(13), range(4), TAIL, TAIL, TAIL).map(_prompt)
stoppings = one_of_each((3, None, 0, 1, 2, 6, 12), (0, 0, 0, 2, 5), STRINGS, TOKEN_IDS, EOS_IDS, (False, True)).map(
    lambda parts: Stopping(
        max_tokens=parts[0],
        min_tokens=parts[1],
        strings=parts[2],
        token_ids=parts[3],
        eos_ids=parts[4],
        include_stop=parts[5],
    )
)
manners = one_of_each(
    SAMPLINGS,
    (None, NARROW, None, WIDE, None, DEAD_END),  # grammar
    (1, 1, 1, 2, 3),  # choices
    (None, 0, 2),  # top_logprobs
    (None, None, None, 0, 1),  # prompt_logprobs
    (True, False),  # skip_special_tokens
    (frozenset[int](),),  # shown_special_ids
    ("", "", "", "another tenant"),  # salt
    (0, 0, 0, 0, -1, 1),  # priority
    (*(None,) * 6, Pooling.MEAN, Pooling.LAST),
)


def _request(prompt: tuple[int, ...], stopping: Stopping, manner: tuple[Any, ...]) -> Request:
    sampling, grammar, *more, pooling = manner
    if pooling is not None:
        stopping = replace(stopping, max_tokens=0)
    return replace(Request("unnamed", prompt, sampling, stopping, *more), pooling=pooling, grammar=grammar)


requests = st.builds(_request, prompts, stoppings, manners)
refused = st.builds(
    lambda parts: Request("refused", parts[0], SAMPLINGS[0], Stopping(), grammar=parts[1]),
    st.sampled_from((((), None), ((2, VOCABULARY_SIZE), None), ((2,) * 60, WIDE), ((2,), WRONG))),
)


def _shape(parts: tuple[Any, ...]) -> Shape:
    name, max_draft_tokens, drafter, draft_model, num_checkpoints, reserved_outputs, *rest = parts
    layout = with_draft_model(LAYOUTS[name]) if draft_model else LAYOUTS[name]
    max_sequences, more_positions, more_rows, max_seconds, position_seconds, num_blocks, block_size, *more = rest
    max_waiting, max_deltas, prefix_caching = more
    return Shape(
        layout=layout,
        num_checkpoints=num_checkpoints,
        reserved_outputs=reserved_outputs,
        num_blocks=num_blocks,
        block_size=block_size,
        max_sequences=max_sequences,
        max_step_positions=max_sequences + more_positions,
        max_logit_rows=max_sequences + more_rows,
        max_step_seconds=max_seconds,
        position_seconds=position_seconds,
        max_waiting=max_waiting,
        max_buffered_deltas=max_deltas,
        prefix_caching=prefix_caching,
        max_draft_tokens=max_draft_tokens,
        drafter=drafter,
        draft_model=draft_model,
    )


shapes = one_of_each(
    ("full", *LAYOUTS),
    (2, 5, 0, 1, 3),
    (*DRAFTERS, "usual", "usual"),
    (None, *BENDS),
    (2, 0, 6),
    (0, 0, 4),
    (3, 1, 2, 4),
    (3, 0, 1, 12),
    (8, 0, 2),
    (None, None, 0.05),
    (0.01, 0.0, 0.5),
    range(3, 11),
    (2, 3, 4),
    (4, 1, 8),
    (3, 1, 2, 8),
    (True, True, True, False),
).map(_shape)
