"""The sampler against a plain reference: lists, float64, one row at a time."""

import math
from collections.abc import Sequence

import pytest
import torch
from hypothesis import given, strategies as st
from torch import Tensor

from engine.model.asks import Ask, uniform
from engine.model.sampler import NUCLEUS, answer_rows, choose_tokens
from engine.request import Sampling
from engine.step import Choose
from tests.toy_grammar import mask_of

VOCABULARY_SIZE = 12


def reference(logits: Sequence[float], ask: Ask) -> int:
    """The token that the row's options and its one random number lead to."""
    choose = ask.choose
    assert choose is not None
    sampling, values = choose.sampling, list(logits)
    for token, bias in sampling.logit_bias:
        values[token] += bias
    for token in range(len(values)):
        if not ask.allows(token):
            values[token] = -math.inf
    for token in {*choose.prompt, *choose.outputs} if sampling.penalizes else ():
        repeated = sampling.repetition_penalty
        values[token] = values[token] / repeated if values[token] > 0 else values[token] * repeated
        times = choose.outputs.count(token)
        values[token] -= sampling.frequency_penalty * times + sampling.presence_penalty * (times > 0)
    if sampling.greedy:
        return values.index(max(values))
    weights = [math.exp((value - max(values)) / sampling.temperature) for value in values]
    for keep in (
        lambda ranked: ranked[: sampling.top_k],
        lambda ranked: nucleus(ranked, sampling.top_p),
        lambda ranked: [weight for weight in ranked if weight >= sampling.min_p],
    ):
        lowest = keep(sorted(weights, reverse=True))[-1]
        weights = [weight if weight >= lowest else 0.0 for weight in weights]
    target = uniform(sampling.seed, choose.choice, choose.output_index) * sum(weights)
    return next(token for token in range(len(weights)) if sum(weights[: token + 1]) > target)


def nucleus(ranked: list[float], share: float) -> list[float]:
    """The fewest of the largest that hold the share."""
    for count in range(1, len(ranked) + 1):
        if sum(ranked[:count]) >= share * sum(ranked):
            return ranked[:count]
    return ranked


@st.composite
def samplings(draw: st.DrawFn) -> Sampling:
    return Sampling(
        seed=draw(st.integers(-(1 << 63), 1 << 63)),
        temperature=draw(st.sampled_from([0.0, 0.01, 0.7, 1.0, 2.0])),
        top_p=draw(st.sampled_from([1.0, 0.05, 0.31, 0.9])),
        top_k=draw(st.none() | st.integers(1, VOCABULARY_SIZE + 2)),
        min_p=draw(st.sampled_from([0.0, 0.03, 0.4, 1.0])),
        presence_penalty=draw(st.sampled_from([0.0, 1.5, -2.0])),
        frequency_penalty=draw(st.sampled_from([0.0, 0.7, -1.0])),
        repetition_penalty=draw(st.sampled_from([1.0, 1.3, 0.8])),
        logit_bias=draw(st.sampled_from([(), ((3, 2.5), (0, -100.0)), ((7, 100.0),)])),
    )


TOKENS = st.lists(st.integers(0, VOCABULARY_SIZE - 1), max_size=5).map(tuple)


@st.composite
def chooses(draw: st.DrawFn) -> Choose:
    return Choose(
        draw(samplings()),
        draw(st.integers(0, 3)),
        draw(st.integers(0, 1000)),
        prompt=draw(TOKENS),
        outputs=draw(TOKENS),
        banned=draw(st.lists(st.integers(0, VOCABULARY_SIZE - 1), max_size=3, unique=True).map(tuple)),
    )


masks = st.none() | st.sets(st.integers(0, VOCABULARY_SIZE - 1), min_size=1).map(mask_of).map(
    lambda m: m.ljust(16, b"\0")
)
asking = st.lists(st.builds(Ask, chooses(), mask=masks), min_size=1, max_size=17)


def chosen(logits: Tensor, choices: Sequence[Choose]) -> list[int]:
    """What is chosen where no grammar has a say."""
    return choose_tokens(logits, [Ask(choose) for choose in choices])


def random_rows(num_rows: int, size: int = VOCABULARY_SIZE, *, seed: int = 0) -> Tensor:
    """Logits with no two sums or values so close that float32 and float64 could tell them apart differently."""
    return torch.randn(num_rows, size, generator=torch.Generator().manual_seed(seed)) * 3


def draw_many(logits: Tensor, num_draws: int, sampling: Sampling) -> list[int]:
    choices = [Choose(sampling, 0, index) for index in range(num_draws)]
    return chosen(logits.expand(num_draws, -1), choices)


@given(asks=asking, seed=st.integers(0, 1 << 32))
def test_each_row_is_chosen_as_the_reference_chooses_it(asks: list[Ask], seed: int) -> None:
    logits = random_rows(len(asks), seed=seed)

    expected = [reference(row, ask) for row, ask in zip(logits.tolist(), asks, strict=True)]

    assert choose_tokens(logits, asks) == expected


@given(asks=asking, seed=st.integers(0, 1 << 32))
def test_a_row_s_choice_does_not_depend_on_the_other_rows(asks: list[Ask], seed: int) -> None:
    logits = random_rows(len(asks), 97, seed=seed)

    together = choose_tokens(logits, asks)

    assert together == [choose_tokens(logits[[row]], [ask])[0] for row, ask in enumerate(asks)]


def test_logits_are_left_as_they_were() -> None:
    logits = random_rows(2)
    before = logits.clone()

    chosen(logits, [Choose(Sampling(0, logit_bias=((1, 5.0),)), 0, 0, banned=(2,)), Choose(Sampling(0), 0, 0)])

    assert torch.equal(logits, before)


def test_every_token_is_drawn_as_often_as_its_share_of_the_random_numbers() -> None:
    weights = torch.tensor([0.5, 0.0, 0.25, 0.125, 0.125])
    numbers = [uniform(7, 0, index) for index in range(2000)]
    expected = [next(t for t, edge in ((0, 0.5), (2, 0.75), (3, 0.875), (4, 1.0)) if n < edge) for n in numbers]

    assert draw_many(weights.log(), 2000, Sampling(seed=7)) == expected


def test_the_random_numbers_fill_the_unit_interval_evenly() -> None:
    numbers = [uniform(seed, choice, index) for seed in range(10) for choice in range(4) for index in range(250)]
    counts = torch.histc(torch.tensor(numbers), bins=10, min=0.0, max=1.0)

    assert len(set(numbers)) == len(numbers)
    assert counts.sum() == len(numbers)
    assert (counts - 1000).abs().max() < 130  # four standard deviations


def test_a_random_number_is_a_matter_of_seed_choice_and_index_alone() -> None:
    assert uniform(1, 2, 3) == uniform(1, 2, 3)
    assert len({uniform(1, 2, 3), uniform(12, 3, 3), uniform(1, 23, 3), uniform(1, 2, 33), uniform(-1, 2, 3)}) == 5


@pytest.mark.parametrize(("temperature", "expected"), [(0.0, {1}), (1e-6, {1, 2})])
def test_of_equal_logits_the_greedy_choice_is_the_lowest_id(temperature: float, expected: set[int]) -> None:
    logits = torch.tensor([1.0, 5.0, 5.0, 2.0])

    assert set(draw_many(logits, 50, Sampling(0, temperature=temperature))) == expected


def test_a_tiny_temperature_takes_the_largest_logit() -> None:
    assert set(draw_many(random_rows(1)[0], 20, Sampling(0, temperature=1e-30))) == {int(random_rows(1).argmax())}


def test_a_wide_nucleus_is_found_beyond_the_values_looked_at_first() -> None:
    size = 4 * NUCLEUS
    logits = random_rows(1, size)[0] * 0.01
    kept = nucleus(sorted((logits.double() - logits.max()).exp().tolist(), reverse=True), 0.5)

    drawn = draw_many(logits, 500, Sampling(seed=3, top_p=0.5))

    assert len(kept) > NUCLEUS
    assert (logits[drawn].double() - logits.max()).exp().min() >= kept[-1] * (1 - 1e-12)
    assert len(set(drawn)) > NUCLEUS / 2


def test_a_share_just_below_one_keeps_everything_that_rounding_leaves() -> None:
    logits = random_rows(1, 3 * NUCLEUS)[0]
    everything = draw_many(logits, 50, Sampling(seed=4))

    assert draw_many(logits, 50, Sampling(seed=4, top_p=math.nextafter(1.0, 0.0))) == everything


def test_a_ban_on_all_but_one_leaves_that_one() -> None:
    banned = tuple(token for token in range(VOCABULARY_SIZE) if token != 4)

    for sampling in (Sampling(0, temperature=0.0), Sampling(0, temperature=1.0, top_p=0.1, top_k=3)):
        assert chosen(random_rows(1), [Choose(sampling, 0, 0, banned=banned)]) == [4]


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_where_nothing_possible_is_left_the_lowest_allowed_id_is_taken(temperature: float) -> None:
    logits = torch.full((1, 6), -math.inf)
    logits[0, 0] = 1.0

    assert chosen(logits, [Choose(Sampling(0, temperature=temperature), 0, 0, banned=(0, 1))]) == [2]


def test_a_ban_on_everything_still_chooses() -> None:
    logits = random_rows(1)

    (token,) = chosen(logits, [Choose(Sampling(0), 0, 0, banned=tuple(range(VOCABULARY_SIZE)))])

    assert 0 <= token < VOCABULARY_SIZE


def test_a_ban_on_what_the_vocabulary_lacks_changes_nothing() -> None:
    choose = Choose(Sampling(0, temperature=0.0), 0, 0, banned=(VOCABULARY_SIZE,))

    assert chosen(random_rows(1), [choose]) == [int(random_rows(1).argmax())]


def test_impossible_tokens_are_never_drawn() -> None:
    logits = torch.tensor([-math.inf, 0.0, -math.inf, 0.0, -math.inf])

    assert set(draw_many(logits, 200, Sampling(seed=1))) == {1, 3}


def test_what_is_asked_of_a_row_is_answered_beside_the_others() -> None:
    logits = torch.tensor([[0.0, 3.0, 1.0], [math.nan, 0.0, 0.0], [2.0, 0.0, 1.0]])
    greedy = Choose(Sampling(0, temperature=0.0), 0, 0)

    chosen, broken, scored = answer_rows(logits, [Ask(greedy), Ask(greedy, num_top=2), Ask(target=2, num_top=1)])

    assert chosen is not None
    assert (chosen.token, chosen.logprob) == (1, None)
    assert broken is None
    assert scored is not None
    assert scored.logprob is not None
    assert (scored.token, scored.logprob.token, scored.logprob.top[0][0]) == (2, 2, 0)
