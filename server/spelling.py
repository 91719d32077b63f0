"""Spelling: texts as a Lark grammar has them. What is a special token is written as that token, since no text is."""

import re
from collections.abc import Iterator, Mapping, Sequence

import orjson

# Any text; and the little space that a model may leave between two parts.
TEXT = "tm_text: TM_TEXT\nTM_TEXT: /(.|\\n)*/\nTM_SPACE: /[ \\n]{0,4}/"


class Spelling:
    """How texts are spelled in a grammar. `special` has the ids of the marks that are special tokens."""

    def __init__(self, special: Mapping[str, int]) -> None:
        self._special = special
        self._mark = re.compile(f"({'|'.join(map(re.escape, special)) or '(?!)'})")

    def spell(self, text: str) -> str:
        """A text as a grammar has it: literals, and special tokens for the marks that are some."""
        return " ".join(self._part(part) for part in self._mark.split(text) if part)

    def begins_special(self, text: str) -> bool:
        """Whether a text begins with a special token."""
        return self._mark.match(text) is not None

    def has_special(self, text: str) -> bool:
        """Whether a text has a special token in it."""
        return self._mark.search(text) is not None

    def up_to(self, mark: str, name: str, text: str = "TM_TEXT") -> Iterator[str]:
        """The rule of a name that is any text up to a mark, and the mark. No text has a special token in it."""
        lazy = "" if self.begins_special(mark) else "[lazy]"
        yield f"{name}{lazy}: {text} {self.spell(mark)}"

    def first(self, marks: Sequence[str]) -> str:
        """The mark to begin with: a special token, if one is."""
        return next((mark for mark in marks if mark in self._special), marks[0])

    def _part(self, text: str) -> str:
        return f"<[{self._special[text]}]>" if text in self._special else literal(text)


def literal(text: str) -> str:
    """A text as it stands, whatever marks it spells."""
    return orjson.dumps(text).decode()
