"""Masks: the tokens that a grammar allows behind the accepted outputs, and behind each draft after them."""

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass

from engine.grammar.matcher import Matcher
from engine.step import Choose, Masks

WORD_BYTES = 4


@dataclass(frozen=True, slots=True)
class MaskWork:
    """What one chunk's masks are made from. The matcher stands where the drafts begin, and is not moved.

    `endless` are end tokens that would end nothing, since the client ignores the end.
    """

    matcher: Matcher
    choose: Choose
    drafts: tuple[int, ...]
    endless: tuple[int, ...]

    def masks(self, vocabulary_size: int) -> Iterator[bytes]:
        """One mask for each row: behind the owed tokens, and behind each draft as long as it is allowed."""
        matcher = self.matcher.copy() if self.drafts else self.matcher
        yield self._mask(matcher, self.choose.banned, vocabulary_size)
        for count, draft in enumerate(self.drafts, start=1):
            banned = self.choose.after(self.drafts[:count]).banned
            stands = matcher.take(draft)
            yield self._mask(matcher, banned, vocabulary_size) if stands else _fitted(b"", vocabulary_size)

    def _mask(self, matcher: Matcher, banned: tuple[int, ...], vocabulary_size: int) -> bytes:
        """What may be chosen: without bans and idle ends, unless they are all that the grammar allows."""
        mask = _fitted(matcher.mask(), vocabulary_size)
        unwanted = {*banned, *self.endless}
        if not unwanted:
            return mask
        wanted = _without(mask, unwanted)
        return wanted if any_allowed(wanted) else mask


def make_masks(works: Iterable[MaskWork | None], vocabulary_size: int) -> Masks:
    """The masks of a step, by chunk; none for a chunk that has no work."""
    return Masks(tuple(() if work is None else tuple(work.masks(vocabulary_size)) for work in works))


def any_allowed(mask: bytes) -> bool:
    """Whether a mask leaves anything."""
    return mask != bytes(len(mask))


def _fitted(mask: bytes, vocabulary_size: int) -> bytes:
    """A mask of exactly the model's vocabulary, in whole words: a tokenizer may have fewer tokens, or more."""
    num_bytes = -(-vocabulary_size // (8 * WORD_BYTES)) * WORD_BYTES
    if len(mask) * 8 <= vocabulary_size:
        return mask.ljust(num_bytes, b"\0")
    whole, rest = divmod(vocabulary_size, 8)
    last = bytes([mask[whole] & ((1 << rest) - 1)]) if rest else b""
    return (mask[:whole] + last).ljust(num_bytes, b"\0")


def _without(mask: bytes, tokens: Collection[int]) -> bytes:
    bits = bytearray(mask)
    for token in tokens:
        if token < 8 * len(bits):
            bits[token // 8] &= ~(1 << token % 8) & 0xFF
    return bytes(bits)
