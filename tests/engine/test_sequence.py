import pytest

from engine.ledger import Accepted, Computed, Planned, Positions
from engine.request import TokenLogprob, Usage
from engine.sequence import Sequence, State
from tests.parts import a_request


def a_sequence(*, prompt: tuple[int, ...] = (2, 3, 4), prompt_logprobs: int | None = None, number: int = 1) -> Sequence:
    request = a_request(prompt, prompt_logprobs=prompt_logprobs)
    return Sequence(request, 0, number=number, max_length=9, positions=Positions(), arrived_at=0.0)


def accept(sequence: Sequence, *tokens: int) -> None:
    """Compute everything that is owed and accept these tokens."""
    upto = len(sequence.tokens)
    sequence.ledger.plan(Planned(upto))
    sequence.tokens.extend(tokens)
    sequence.ledger.commit(Computed(upto), Accepted(upto + len(tokens)))


def test_a_new_sequence_owes_its_prompt() -> None:
    sequence = a_sequence()

    assert (sequence.num_prompt, sequence.num_outputs, sequence.num_owed) == (3, 0, 3)
    sequence.check()


def test_a_decoding_sequence_owes_its_newest_token() -> None:
    sequence = a_sequence()
    accept(sequence, 7)

    assert sequence.ledger.computed == sequence.ledger.accepted - 1
    assert (sequence.num_outputs, sequence.num_owed) == (1, 1)
    sequence.check()


def test_usage_is_what_the_ledger_says() -> None:
    sequence = a_sequence()
    sequence.cached_tokens = 2
    accept(sequence, 7)

    assert sequence.usage == Usage(prompt_tokens=3, cached_tokens=2, output_tokens=1)


def test_a_hit_leaves_one_token_and_every_prompt_logprob_that_is_still_wanted() -> None:
    scoring = a_sequence(prompt_logprobs=0)
    hits = [scoring.max_hit]
    scoring.prompt_logprobs.append(TokenLogprob(3, -1.0))
    hits.append(scoring.max_hit)
    scoring.prompt_logprobs.append(TokenLogprob(4, -1.0))
    accept(scoring, 7, 8)
    hits.append(scoring.max_hit)

    assert hits == [0, 1, 4]
    assert a_sequence().max_hit == 2


def test_an_invalidated_sequence_keeps_its_tokens_in_a_new_epoch() -> None:
    sequence = a_sequence()
    accept(sequence, 7)

    sequence.invalidate()

    assert (sequence.tokens, sequence.num_owed, sequence.epoch) == ([2, 3, 4, 7], 4, 1)


def test_the_lower_priority_number_goes_first_then_the_earlier_arrival() -> None:
    late, early = a_sequence(number=2), a_sequence(number=1)
    urgent = Sequence(a_request(priority=-1), 0, number=3, max_length=9, positions=Positions(), arrived_at=0.0)

    assert sorted([late, early, urgent], key=lambda sequence: sequence.order) == [urgent, early, late]


@pytest.mark.parametrize("state", [State.WAITING, State.PARKED, State.FINISHED])
def test_only_running_and_paused_sequences_hold_cache(state: State) -> None:
    sequence = a_sequence()
    sequence.held.num_blocks = 1
    sequence.state = state

    with pytest.raises(AssertionError, match="holds no cache"):
        sequence.check()


def test_the_newest_token_of_an_unfinished_sequence_has_no_cache_state() -> None:
    sequence = a_sequence()
    accept(sequence)

    with pytest.raises(AssertionError, match="no cache state yet"):
        sequence.check()


def test_tokens_are_exactly_the_accepted_ones() -> None:
    sequence = a_sequence()
    sequence.tokens.append(9)

    with pytest.raises(AssertionError, match="the accepted ones"):
        sequence.check()
