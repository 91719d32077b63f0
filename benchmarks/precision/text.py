"""The text that is scored: chapters of Python's language reference, which every Python brings along, in windows."""

from collections.abc import Sequence
from pydoc_data.topics import topics

CHAPTERS = ("execmodel", "types", "specialnames")  # whole sentences for the most part: 110,000 characters
ORIGIN = f"Python's language reference ({', '.join(CHAPTERS)} of `pydoc`)"


class TextTooShort(Exception):
    """There is less text than was to be scored."""


def reference_text() -> str:
    """The chapters' paragraphs, without the line breaks that a page of pydoc has."""
    paragraphs = (paragraph for chapter in CHAPTERS for paragraph in topics[chapter].split("\n\n"))
    return "\n\n".join(filter(None, (" ".join(paragraph.split()) for paragraph in paragraphs)))


def windows(ids: Sequence[int], lead: Sequence[int], *, count: int, length: int) -> list[tuple[int, ...]]:
    """The first `count` runs of tokens, each `length` long with the `lead` that a prompt begins with.

    Raises:
        TextTooShort: where there are not so many tokens.
    """
    size = length - len(lead)
    if len(ids) < count * size:
        raise TextTooShort(f"{count} windows of {length} take {count * size:,} tokens, and the text has {len(ids):,}")
    return [(*lead, *ids[first : first + size]) for first in range(0, count * size, size)]
