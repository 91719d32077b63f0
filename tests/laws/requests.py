"""Requests that meet: shared beginnings, few seeds, every way to end, now and then one that must be refused."""

from hypothesis import strategies as st

from engine.request import Request, Sampling, Stopping
from tests.digest import EOS, VOCABULARY_SIZE
from tests.laws.shape import Shape

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
STRINGS = ((), (), ("a",), ("ab", "b c"), ("€",), ("bcab", "c a b c a b"), ("\ufffd",))

prompts = st.builds(
    lambda tape, cut, tail: (*tape[:cut], *tail),
    st.sampled_from(TAPES),
    st.integers(0, 12),
    st.lists(st.integers(1, VOCABULARY_SIZE - 1), max_size=3),
)
stoppings = st.builds(
    Stopping,
    max_tokens=st.sampled_from((3, None, 0, 1, 2, 6, 12)),
    min_tokens=st.sampled_from((0, 0, 0, 2, 5)),
    strings=st.sampled_from(STRINGS),
    token_ids=st.sampled_from((frozenset[int](), frozenset({3}), frozenset({EOS, 7}))),
    eos_ids=st.sampled_from((frozenset({EOS}), frozenset[int]())),
    include_stop=st.booleans(),
)
requests = st.builds(
    Request,
    id=st.just("unnamed"),
    prompt=prompts,
    sampling=st.sampled_from(SAMPLINGS),
    stopping=stoppings,
    num_choices=st.sampled_from((1, 1, 1, 2, 3)),
    top_logprobs=st.sampled_from((None, 0, 2)),
    prompt_logprobs=st.sampled_from((None, None, None, 0, 1)),
    skip_special_tokens=st.booleans(),
    salt=st.sampled_from(("", "", "", "another tenant")),
    priority=st.sampled_from((0, 0, 0, 0, -1, 1)),
)
refused = st.builds(
    Request,
    id=st.just("refused"),
    prompt=st.sampled_from(((), (2, VOCABULARY_SIZE), (2,) * 60)),
    sampling=st.just(SAMPLINGS[0]),
    stopping=st.just(Stopping()),
)
shapes = st.builds(
    lambda sequences, more_positions, more_rows, **sizes: Shape(
        max_sequences=sequences,
        max_step_positions=sequences + more_positions,
        max_logit_rows=sequences + more_rows,
        **sizes,
    ),
    sequences=st.integers(1, 4),
    more_positions=st.sampled_from((3, 0, 1, 12)),
    more_rows=st.sampled_from((8, 0, 2)),
    num_blocks=st.integers(3, 10),
    block_size=st.integers(2, 4),
    max_waiting=st.sampled_from((4, 1, 8)),
    max_buffered_deltas=st.sampled_from((3, 1, 2, 8)),
    prefix_caching=st.sampled_from((True, True, True, False)),
)
