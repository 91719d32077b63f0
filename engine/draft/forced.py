"""Tokens that a sequence's grammar leaves no choice about."""

from collections.abc import Callable, Sequence as Run

from engine.draft.source import Guess


class ForcedTokens:
    """Says what must come next. `forced` asks the grammar, which stands where the tokens end."""

    def __init__(self, forced: Callable[[], tuple[int, ...]]) -> None:
        self._forced = forced

    def propose(self, _tokens: Run[int], most: int) -> Guess | None:
        """The forced tokens; all of them will be chosen."""
        forced = self._forced()[:most]
        return Guess(forced, firm=True, sure=True) if forced else None
