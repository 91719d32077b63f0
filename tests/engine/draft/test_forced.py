from engine.draft.forced import ForcedTokens
from engine.draft.source import Guess


def test_the_forced_tokens_are_a_sure_guess_and_no_longer_than_wanted() -> None:
    source = ForcedTokens(lambda: (4, 5, 6))

    assert source.propose((1,), 2) == Guess((4, 5), firm=True, sure=True)
    assert source.propose((1,), 9) == Guess((4, 5, 6), firm=True, sure=True)


def test_there_is_no_guess_where_there_is_a_choice() -> None:
    assert ForcedTokens(tuple).propose((1,), 2) is None
