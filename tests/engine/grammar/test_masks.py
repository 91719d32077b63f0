import pytest

from engine.grammar.masks import MaskWork, any_allowed, make_masks
from engine.request import Sampling
from engine.step import Choose
from tests.digest import EOS, VOCABULARY_SIZE, tokens_in
from tests.toy_grammar import DEAD_END, NARROW, ToyMatcher, allowed_behind

OUTPUTS = next(
    (first, second)
    for first in sorted(allowed_behind(NARROW, ()))
    for second in sorted(allowed_behind(NARROW, (first,)))
    if EOS not in (first, second)
)
PLAIN = Choose(Sampling(seed=0), choice=0, output_index=0)


def masks_of(work: MaskWork, vocabulary_size: int = VOCABULARY_SIZE) -> list[list[int]]:
    (masks,) = make_masks([work], vocabulary_size).by_chunk
    assert all(len(mask) % 4 == 0 and 8 * len(mask) >= vocabulary_size for mask in masks)
    return [tokens_in(mask) for mask in masks]


def test_each_row_has_what_is_allowed_behind_the_drafts_before_it() -> None:
    masks = masks_of(MaskWork(ToyMatcher(NARROW), PLAIN, OUTPUTS, endless=()))

    assert masks == [sorted(allowed_behind(NARROW, OUTPUTS[:count])) for count in range(3)]


def test_behind_a_draft_that_is_not_allowed_nothing_is() -> None:
    wrong = next(token for token in range(VOCABULARY_SIZE) if token not in allowed_behind(NARROW, ()))

    masks = masks_of(MaskWork(ToyMatcher(NARROW), PLAIN, (wrong, 2), endless=()))

    assert masks[0] == sorted(allowed_behind(NARROW, ()))
    assert masks[1:] == [[], []]


def test_a_chunk_without_work_has_no_masks() -> None:
    assert make_masks([None, MaskWork(ToyMatcher(NARROW), PLAIN, (), ())], VOCABULARY_SIZE).by_chunk[0] == ()


@pytest.mark.parametrize("banned_outputs", [0, 1])
def test_what_is_banned_is_not_allowed_as_long_as_it_is(banned_outputs: int) -> None:
    allowed = sorted(allowed_behind(NARROW, OUTPUTS[:1]))
    choose = Choose(Sampling(seed=0), choice=0, output_index=0, banned=(allowed[0], 99), min_outputs=banned_outputs + 1)

    _, mask, _ = masks_of(MaskWork(ToyMatcher(NARROW), choose, OUTPUTS, endless=()))

    left = allowed[1:] if banned_outputs and len(allowed) > 1 else allowed
    assert mask == left


def test_an_end_that_ends_nothing_is_allowed_only_where_nothing_else_is() -> None:
    ends = ToyMatcher(NARROW, (EOS,))
    open_ended = next(
        outputs
        for outputs in ((first, second) for first in range(18) for second in range(18))
        if EOS in (allowed := allowed_behind(NARROW, outputs)) and len(allowed) > 1 and EOS not in outputs
    )

    assert masks_of(MaskWork(ends, PLAIN, (), endless=(EOS,))) == [[EOS]]
    (mask,) = masks_of(MaskWork(ToyMatcher(NARROW, open_ended), PLAIN, (), endless=(EOS,)))
    assert mask == sorted(allowed_behind(NARROW, open_ended) - {EOS})


class Says(ToyMatcher):
    """A matcher with a mask of another vocabulary."""

    def mask(self) -> bytes:
        return b"\xff" * 5


@pytest.mark.parametrize("vocabulary_size", [1, 8, 33, 39, 40, 41, 64, 100])
def test_a_mask_has_bits_of_the_model_s_vocabulary_alone(vocabulary_size: int) -> None:
    (mask,) = masks_of(MaskWork(Says(NARROW), PLAIN, (), endless=()), vocabulary_size)

    assert mask == list(range(min(40, vocabulary_size)))


def test_a_grammar_that_leads_nowhere_allows_nothing() -> None:
    (mask,) = make_masks([MaskWork(ToyMatcher(DEAD_END, (2, 2, 2, 2)), PLAIN, (), ())], VOCABULARY_SIZE).by_chunk[0]

    assert not any_allowed(mask)
