"""The native sampler against torch's: the same tokens for every option, the same log-probabilities."""

import math
from collections.abc import Sequence
from dataclasses import replace

import pytest
import torch
from hypothesis import given, strategies as st
from torch import Tensor

from engine.model.asks import Answer, Ask
from engine.model.kernels.native import Level
from engine.model.kernels.sampling import NativeSampler
from engine.model.sampler import answer_rows
from engine.request import Sampling
from engine.step import Choose
from tests.engine.model.kernels.machine import LEVELS, opened, the_library

every_level = pytest.mark.parametrize("level", LEVELS, ids=lambda level: level.name)
SIZES = st.sampled_from([1, 5, 16, 97, 255, 256, 257, 1024, 4099])
GREEDY = Choose(Sampling(0, temperature=0.0), 0, 0)


def native(level: Level, logits: Tensor, asks: Sequence[Ask], *, num_threads: int = 1) -> Sequence[Answer | None]:
    with opened(num_threads) as pool:
        return NativeSampler(the_library(), pool, level)(logits, asks)


def random_rows(num_rows: int, size: int, *, seed: int = 0, scale: float = 3.0) -> Tensor:
    return torch.randn(num_rows, size, generator=torch.Generator().manual_seed(seed)) * scale


def assert_same(answers: Sequence[Answer | None], expected: Sequence[Answer | None]) -> None:
    """The same tokens, and the same log-probabilities but for rounding."""
    for answer, wanted in zip(answers, expected, strict=True):
        assert (answer is None) == (wanted is None)
        if answer is None or wanted is None:
            continue
        assert answer.token == wanted.token
        assert (answer.logprob is None) == (wanted.logprob is None)
        if answer.logprob is None or wanted.logprob is None:
            continue
        assert answer.logprob.token == wanted.logprob.token
        assert answer.logprob.logprob == pytest.approx(wanted.logprob.logprob, rel=1e-5, abs=1e-5)
        assert [token for token, _ in answer.logprob.top] == [token for token, _ in wanted.logprob.top]
        values = [value for _, value in wanted.logprob.top]
        assert [value for _, value in answer.logprob.top] == pytest.approx(values, rel=1e-5, abs=1e-5)


@st.composite
def samplings(draw: st.DrawFn, size: int) -> Sampling:
    tokens = st.integers(0, size - 1)
    return Sampling(
        seed=draw(st.integers(-(1 << 63), 1 << 63)),
        temperature=draw(st.sampled_from([0.0, 1e-30, 0.1, 0.7, 1.0, 2.0, 50.0])),
        top_p=draw(st.sampled_from([1.0, 0.0, 0.05, 0.31, 0.9, 0.999, math.nextafter(1.0, 0.0)])),
        top_k=draw(st.sampled_from([None, 1, 2, 7, 50, 300, size, size + 3])),
        min_p=draw(st.sampled_from([0.0, 0.03, 0.4, 1.0])),
        presence_penalty=draw(st.sampled_from([0.0, 1.5, -2.0])),
        frequency_penalty=draw(st.sampled_from([0.0, 0.7, -1.0])),
        repetition_penalty=draw(st.sampled_from([1.0, 1.3, 0.8])),
        logit_bias=tuple(draw(st.lists(st.tuples(tokens, st.sampled_from([-100.0, 2.5, 100.0])), max_size=3))),
    )


@st.composite
def asks_of(draw: st.DrawFn, size: int) -> Ask:
    num_top = draw(st.sampled_from([None, 0, 1, 5, 20]))
    if draw(st.integers(0, 4)) == 0:
        return Ask(target=draw(st.integers(0, size - 1)), num_top=num_top or 0)
    seen = st.lists(st.integers(0, size - 1), max_size=8).map(tuple)
    banned = st.lists(st.integers(0, size - 1), max_size=3, unique=True).map(tuple)
    choose = Choose(draw(samplings(size)), 0, draw(st.integers(0, 999)), draw(seen), draw(seen), draw(banned))
    mask = draw(st.none() | st.builds(mask_bytes, bits_of(size), st.just(size)))
    return Ask(choose, num_top=num_top, mask=mask)


def bits_of(size: int) -> st.SearchStrategy[int]:
    """Tokens here and there, all those between two, or all but these."""
    everything, place = (1 << size) - 1, st.integers(0, size)
    runs = st.builds(lambda one, other: (1 << max(one, other)) - (1 << min(one, other)), place, place)
    return st.integers(0, everything) | runs | runs.map(everything.__xor__)


def mask_bytes(bits: int, size: int) -> bytes:
    """A mask of these bits, in whole words."""
    return bits.to_bytes(-(-size // 32) * 4, "little")


@every_level
@given(data=st.data(), size=SIZES, seed=st.integers(0, 1 << 32), scale=st.sampled_from([0.01, 1.0, 3.0, 10.0]))
def test_native_tokens_are_torchs(level: Level, data: st.DataObject, size: int, seed: int, scale: float) -> None:
    asks = data.draw(st.lists(asks_of(size), min_size=1, max_size=4))
    logits = random_rows(len(asks), size, seed=seed, scale=scale)
    before = logits.clone()

    answers = native(level, logits, asks)

    assert torch.equal(logits, before)
    assert_same(answers, answer_rows(logits, asks))


@every_level
@given(data=st.data(), size=SIZES, seed=st.integers(0, 1 << 32))
def test_equal_logits_are_kept_or_left_together(level: Level, data: st.DataObject, size: int, seed: int) -> None:
    asks = data.draw(st.lists(asks_of(size), min_size=1, max_size=4))
    logits = random_rows(len(asks), size, seed=seed, scale=1.0).mul(2.0).round().div(2.0)

    assert_same(native(level, logits, asks), answer_rows(logits, asks))


@pytest.mark.parametrize("temperature", [0.3, 1.0, 5.0])
@pytest.mark.parametrize(
    "options", [{}, {"top_p": 0.95}, {"top_k": 50, "top_p": 0.9}, {"top_k": 5000}, {"min_p": 0.05}]
)
def test_a_large_vocabulary_is_no_other_case(options: dict[str, float], temperature: float) -> None:
    logits = random_rows(8, 49_152)
    sampling = Sampling(5, temperature=temperature, **options)  # type: ignore[arg-type]  # top_k is an int
    asks = [Ask(Choose(sampling, 0, index), num_top=20) for index in range(8)]
    expected = answer_rows(logits, asks)

    for level in LEVELS:
        assert_same(native(level, logits, asks, num_threads=2), expected)


@every_level
@given(data=st.data(), size=SIZES, seed=st.integers(0, 1 << 32))
def test_a_rows_answer_does_not_depend_on_the_other_rows(
    level: Level, data: st.DataObject, size: int, seed: int
) -> None:
    asks = data.draw(st.lists(asks_of(size), min_size=2, max_size=6))
    logits = random_rows(len(asks), size, seed=seed)

    together = native(level, logits, asks, num_threads=2)

    assert list(together) == [native(level, logits[[row]], [ask])[0] for row, ask in enumerate(asks)]


@given(data=st.data(), size=SIZES, seed=st.integers(0, 1 << 32))
def test_every_level_gives_the_same_answers_to_the_bit(data: st.DataObject, size: int, seed: int) -> None:
    asks = data.draw(st.lists(asks_of(size), min_size=1, max_size=3))
    logits = random_rows(len(asks), size, seed=seed)

    first, *others = [native(level, logits, asks) for level in LEVELS]

    assert all(other == first for other in others)


@every_level
@pytest.mark.parametrize("value", [math.nan, math.inf])
@pytest.mark.parametrize("token", [0, 255, 256, 299])
def test_a_row_that_is_not_finite_has_no_answer(level: Level, value: float, token: int) -> None:
    logits = random_rows(3, 300)
    logits[1, token] = value
    asks = [Ask(replace(GREEDY, banned=(token,)))] * 3

    answers = native(level, logits, asks)

    assert [answer is None for answer in answers] == [False, True, False]


@every_level
def test_impossible_tokens_are_listed_last_and_never_drawn(level: Level) -> None:
    logits = torch.full((1, 600), -math.inf)
    logits[0, [7, 400]] = torch.tensor([1.0, 2.0])
    for sampling in (Sampling(1), Sampling(1, top_k=5), Sampling(1, top_p=0.9), Sampling(1, min_p=0.1)):
        ask = Ask(Choose(sampling, 0, 3), num_top=4)

        (answer,) = native(level, logits, [ask])

        assert answer is not None
        assert answer.token in (7, 400)
        assert answer.logprob is not None
        assert [token for token, _ in answer.logprob.top] == [400, 7, 0, 1]
        assert answer.logprob.top[3][1] == -math.inf


@every_level
@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_where_nothing_possible_is_left_the_lowest_allowed_id_is_taken(level: Level, temperature: float) -> None:
    logits = torch.full((1, 6), -math.inf)
    logits[0, 0] = 1.0
    choose = Choose(Sampling(0, temperature=temperature), 0, 0, banned=(0, 1))

    (answer,) = native(level, logits, [Ask(choose)])

    assert answer == Answer(2)


@every_level
@pytest.mark.parametrize("temperature", [0.0, 1.0])
@pytest.mark.parametrize("size", [6, 32, 33, 300])
def test_a_mask_says_all_that_may_be_chosen(level: Level, temperature: float, size: int) -> None:
    logits = torch.arange(float(size)).unsqueeze(0)
    choose = Choose(Sampling(0, temperature=temperature, logit_bias=((5, 100.0),)), 0, 0, banned=(4, 3))

    (one,) = native(level, logits, [Ask(choose, num_top=1, mask=mask_bytes(1 << 4, size))])
    (of_two,) = native(level, logits, [Ask(choose, mask=mask_bytes(1 << 4 | 1 << 2, size))])
    (nothing,) = native(level, logits, [Ask(choose, mask=mask_bytes(0, size))])

    assert one is not None
    assert one.logprob is not None
    assert (one.token, one.logprob.top[0][0]) == (4, size - 1), "what is listed is not masked"
    assert of_two is not None
    assert of_two.token in (4, 2)
    assert nothing is not None


@every_level
@pytest.mark.parametrize("options", [{"temperature": 0.0}, {}, {"top_k": 3}, {"top_p": 0.5}, {"min_p": 0.9}])
@pytest.mark.parametrize("hidden", [0, 31, 255, 256, 700, 1023])
def test_one_token_is_hidden_among_many(level: Level, options: dict[str, float], hidden: int) -> None:
    logits = torch.zeros(1, 1024)
    logits[0, hidden] = 100.0
    choose = Choose(Sampling(0, **options), 0, 0)  # type: ignore[arg-type]  # top_k is an int
    mask = mask_bytes((1 << 1024) - 1 ^ 1 << hidden, 1024)

    assert_same(native(level, logits, [Ask(choose, mask=mask)]), answer_rows(logits, [Ask(choose, mask=mask)]))


@every_level
def test_a_ban_on_what_the_vocabulary_lacks_changes_nothing(level: Level) -> None:
    memory = torch.tensor([[1.0, 2.0, 7.0]])

    (answer,) = native(level, memory[:, :2], [Ask(replace(GREEDY, banned=(2,)))])

    assert answer == Answer(1)
    assert memory[0, 2] == 7.0


@every_level
def test_every_token_is_drawn_as_often_as_its_share(level: Level) -> None:
    weights = torch.tensor([0.5, 0.0, 0.25, 0.125, 0.125])
    asks = [Ask(Choose(Sampling(7), 0, index)) for index in range(2000)]

    tokens = [answer.token for answer in native(level, weights.log().repeat(2000, 1), asks) if answer is not None]

    counts = torch.bincount(torch.tensor(tokens), minlength=5)
    assert counts[1] == 0
    torch.testing.assert_close(counts / 2000, weights, atol=0.04, rtol=0.0)


@every_level
def test_rows_may_lie_apart(level: Level) -> None:
    wide = random_rows(4, 500)
    asks = [Ask(GREEDY, num_top=3)] * 4

    assert_same(native(level, wide[:, :321], asks), answer_rows(wide[:, :321], asks))


@every_level
def test_no_rows_have_no_answers(level: Level) -> None:
    assert list(native(level, torch.empty(0, 9), [])) == []
