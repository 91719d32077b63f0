"""Scan: how far a text goes on like a JSON value, told character by character."""

from enum import Enum, auto

WORD_CHARACTERS = "+-._"  # beside letters and digits


class _Place(Enum):
    """What may come next."""

    VALUE = auto()
    VALUE_OR_END = auto()
    KEY_OR_END = auto()
    COLON = auto()
    COMMA_OR_END = auto()
    WORD = auto()  # more of a word, or what comes behind it


_VALUES = (_Place.VALUE, _Place.VALUE_OR_END)
_WHOLE = (_Place.COMMA_OR_END, _Place.WORD)  # behind a value
_ENDS = (*_WHOLE, _Place.VALUE_OR_END, _Place.KEY_OR_END)
_CLOSING = {"{": "}", "[": "]"}


class Scan:
    """Follows the brackets, strings, colons and commas of a JSON object or list.

    What strings hold and which words there are is not looked at, and a comma may come before the end: models write line
    feeds and `True`, and it is clear where they end. `known`: it has shown what it is, by a key with its colon, or it
    is `closed`. `broken`: what comes next can't belong to it.
    """

    def __init__(self) -> None:
        self._closing: list[str] = []  # the brackets that are owed
        self._place = _Place.VALUE
        self._quoted = False
        self._escaped = False
        self.known = False
        self.closed = False
        self.broken = False

    def take(self, text: str) -> str:
        """As much of the text as belongs to the value."""
        for count, character in enumerate(text):
            if self._quoted:
                self._quoted = character != '"' or self._escaped
                self._escaped = character == "\\" and not self._escaped
                continue
            place = self._behind(character)
            if place is None:
                self.broken = True
                return text[:count]
            self._place = place
            if self.closed:
                return text[: count + 1]
        return text

    def _behind(self, character: str) -> _Place | None:
        """What may come behind a character, or None where that can't come itself."""
        match character:
            case '"':
                return self._behind_text()
            case "{" | "[":
                return self._behind_opening(character)
            case "}" | "]":
                return self._behind_closing(character)
            case ":":
                return self._behind_colon()
            case ",":
                return self._inside() if self._place in _WHOLE else None
            case _:
                return self._behind_word(character)

    def _behind_colon(self) -> _Place | None:
        if self._place is not _Place.COLON:
            return None
        self.known = True
        return _Place.VALUE

    def _behind_word(self, character: str) -> _Place | None:
        if character.isspace():
            return _Place.COMMA_OR_END if self._place is _Place.WORD else self._place
        is_word = character.isalnum() or character in WORD_CHARACTERS
        return _Place.WORD if is_word and self._place in (*_VALUES, _Place.WORD) else None

    def _behind_text(self) -> _Place | None:
        self._quoted = self._place in (*_VALUES, _Place.KEY_OR_END)
        if not self._quoted:
            return None
        return _Place.COLON if self._place is _Place.KEY_OR_END else _Place.COMMA_OR_END

    def _behind_opening(self, bracket: str) -> _Place | None:
        if self._place not in _VALUES:
            return None
        self._closing.append(_CLOSING[bracket])
        return self._inside()

    def _behind_closing(self, bracket: str) -> _Place | None:
        if self._place not in _ENDS or self._closing[-1] != bracket:
            return None
        self._closing.pop()
        self.closed = not self._closing
        self.known = self.known or self.closed
        return _Place.COMMA_OR_END

    def _inside(self) -> _Place:
        """What may come behind the bracket that is open, and behind a comma there."""
        return _Place.KEY_OR_END if self._closing[-1] == "}" else _Place.VALUE_OR_END
