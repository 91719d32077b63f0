"""Allowance: how much a schema may grow when it is said in other words. A reference is short, what it names is not."""

MAX_WORDS = 20_000


class Allowance:
    """What is left of it, for one schema."""

    def __init__(self, words: int = MAX_WORDS) -> None:
        self._words = words
        self._left = words

    def take(self, words: int) -> None:
        """Raises ValueError where less is left."""
        self._left -= words
        if self._left < 0:
            raise ValueError(f"said in words that can be enforced it would grow by more than {self._words} of them")
