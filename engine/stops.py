"""Stop strings in a growing text: which one it completes, and what must be held back for the others."""


class _StopString:
    """How much of one stop string the text's end matches (Knuth, Morris and Pratt, 1977).

    The table of borders grows only as far as text has matched, so a stop string of any length costs
    no more than the text that it is held against.
    """

    __slots__ = ("_borders", "matched", "string")

    def __init__(self, string: str) -> None:
        assert string, "a stop string is not empty"
        self.string = string
        self.matched = 0
        self._borders = [0]  # [i]: how much of the string's start also ends its first i + 1 characters

    def feed(self, character: str) -> bool:
        """Whether the string ends with this character of the text."""
        matched = self.matched
        while matched and self.string[matched] != character:
            matched = self._border(matched)
        matched += self.string[matched] == character
        completed = matched == len(self.string)
        self.matched = self._border(matched) if completed else matched
        return completed

    def _border(self, length: int) -> int:
        """The longest proper start of the string that also ends its first `length` characters."""
        string, borders = self.string, self._borders
        while len(borders) < length:
            border, character = borders[-1], string[len(borders)]
            while border and string[border] != character:
                border = borders[border - 1]
            borders.append(border + (string[border] == character))
        return borders[length - 1]


class StopStrings:
    """Which stop string the text completes first, and how much of its end may still become one."""

    __slots__ = ("_firsts", "_strings", "held")

    def __init__(self, strings: tuple[str, ...]) -> None:
        self._strings = [_StopString(string) for string in strings]
        self._firsts = frozenset(string[0] for string in strings)
        self.held = 0  # characters at the text's end that a stop string may begin with

    def feed(self, text: str, *, matching: bool) -> tuple[str, int] | None:
        """The stop string completed first in this text and the number of characters up to its end.

        Of several that end with the same character the longest counts: it begins first.
        """
        if not self.held and self._firsts.isdisjoint(text):
            return None
        for count, character in enumerate(text, start=1):
            completed = [stop.string for stop in self._strings if stop.feed(character)]
            if completed and matching:
                return max(completed, key=len), count
        self.held = max(stop.matched for stop in self._strings)
        return None
