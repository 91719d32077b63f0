from collections.abc import Sequence as Run
from dataclasses import replace

import pytest

from engine.draft.drafts import FIRST_CHANCE, Drafts, usual_sources
from engine.draft.source import Guess
from engine.ledger import Positions
from engine.request import Request
from engine.sequence import Sequence
from tests.parts import a_request
from tests.toy_grammar import toy_grammars


def a_sequence(request: Request | None = None, *, max_length: int = 100) -> Sequence:
    asked = request or a_request()
    return Sequence(asked, 0, number=1, max_length=max_length, positions=Positions(), arrived_at=0.0)


class Says:
    """A source that always says the same."""

    def __init__(self, *tokens: int, firm: bool = True) -> None:
        self._guess = Guess(tokens, firm) if tokens else None

    def propose(self, tokens: Run[int], most: int) -> Guess | None:
        return self._guess and replace(self._guess, tokens=self._guess.tokens[:most])


def drafts_of(*sources: Says | None, max_tokens: int = 8) -> Drafts:
    makers = {f"source {number}": lambda _, source=source: source for number, source in enumerate(sources)}
    return Drafts(makers, max_tokens=max_tokens, grammars=toy_grammars())


def test_the_likeliest_guess_is_taken_and_of_equal_ones_the_first() -> None:
    equal = drafts_of(None, Says(), Says(5, 6), Says(7)).draft(a_sequence())
    firmer = drafts_of(Says(5, 6, firm=False), Says(7)).draft(a_sequence())

    assert equal is not None
    assert (equal.source, equal.tokens, equal.chance) == ("source 2", (5, 6), FIRST_CHANCE[True])
    assert firmer is not None
    assert (firmer.source, firmer.tokens, firmer.chance) == ("source 1", (7,), FIRST_CHANCE[True])


def test_a_source_that_fails_gives_way_to_another() -> None:
    sequence, drafts = a_sequence(), drafts_of(Says(5), Says(7))
    sources = []
    for num_kept in (0, 1, 1):
        draft = drafts.draft(sequence)
        assert draft is not None
        sources.append(draft.source)
        drafts.observe(sequence, draft.source, num_drafts=1, num_kept=num_kept)

    assert sources == ["source 0", "source 1", "source 1"]


@pytest.mark.parametrize(
    ("wanted", "max_length", "count"),
    [(None, 100, 3), (2, 100, 2), (99, 100, 3), (0, 100, 0), (None, 8, 2), (None, 6, 0)],
)
def test_a_draft_leaves_room_for_the_token_behind_it(wanted: int | None, max_length: int, count: int) -> None:
    request = replace(a_request((1, 2, 3, 4, 5)), max_draft_tokens=wanted)

    draft = drafts_of(Says(*range(9)), max_tokens=3).draft(a_sequence(request, max_length=max_length))

    assert (0 if draft is None else len(draft.tokens)) == count


def test_what_falls_makes_the_next_draft_less_likely_and_what_stands_more() -> None:
    sequence, drafts = a_sequence(), drafts_of(Says(5, 6, 7))
    chances = []
    for num_kept in (0, 0, 3, 3, 3):
        draft = drafts.draft(sequence)
        assert draft is not None
        chances.append(draft.chance)
        drafts.observe(sequence, draft.source, num_drafts=3, num_kept=num_kept)

    assert chances[0] > chances[1] > chances[2] < chances[3] < chances[4]


def test_tokens_behind_the_first_that_fell_tell_nothing() -> None:
    first, second = a_sequence(), a_sequence(a_request(id="other"))
    drafts = drafts_of(Says(*range(8)))
    for sequence, num_drafts in ((first, 2), (second, 8)):
        drafts.draft(sequence)
        drafts.observe(sequence, "source 0", num_drafts=num_drafts, num_kept=0)

    one, other = drafts.draft(first), drafts.draft(second)

    assert one is not None
    assert other is not None
    assert one.chance == other.chance


def test_what_failed_is_forgotten_in_time() -> None:
    sequence, drafts = a_sequence(max_length=1000), drafts_of(Says(5))
    drafts.draft(sequence)
    for _ in range(5):
        drafts.observe(sequence, "source 0", num_drafts=1, num_kept=0)
    before = drafts.draft(sequence)
    sequence.tokens.extend(range(300))

    later = drafts.draft(sequence)

    assert before is not None
    assert later is not None
    assert before.chance < later.chance < FIRST_CHANCE[True]


def test_firm_guesses_and_others_are_judged_apart() -> None:
    sequence = a_sequence()
    loose = Says(5, firm=False)
    drafts = Drafts({"s": lambda _: loose}, max_tokens=4, grammars=toy_grammars())
    draft = drafts.draft(sequence)
    assert draft is not None
    assert draft.chance == FIRST_CHANCE[False]
    drafts.observe(sequence, "s", num_drafts=1, num_kept=0)

    loose._guess = Guess((5,), firm=True)
    firm = drafts.draft(sequence)

    assert firm is not None
    assert firm.chance == FIRST_CHANCE[True]


def test_who_has_ended_is_forgotten() -> None:
    sequence, drafts = a_sequence(), drafts_of(Says(5))
    drafts.draft(sequence)

    drafts.forget(sequence)
    drafts.forget(sequence)

    assert not drafts._records


def test_the_client_s_guess_goes_before_what_the_sequence_said_as_long_as_it_is_as_likely() -> None:
    request = replace(a_request((1, 2, 3, 7, 1, 2, 3)), prediction=(4, 4, 4))
    drafts = Drafts(usual_sources(prompt_lookup=True), max_tokens=2, grammars=toy_grammars())

    predicted, looked_up = (
        drafts.draft(a_sequence(request)),
        drafts.draft(a_sequence(replace(request, id="b", prediction=()))),
    )

    assert predicted is not None
    assert (predicted.source, predicted.tokens) == ("prediction", (4, 4))
    assert looked_up is not None
    assert (looked_up.source, looked_up.tokens) == ("prompt_lookup", (7, 1))
    alone = Drafts(usual_sources(prompt_lookup=False), max_tokens=2, grammars=toy_grammars())
    assert alone.draft(a_sequence(replace(request, prediction=()))) is None
