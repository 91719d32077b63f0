"""A tokenizer's vocabulary as bytes, read off the decoder that the tokenizer itself uses."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

from tokenizers import AddedToken, Tokenizer

from engine.errors import ModelUnsupported
from engine.text import Vocabulary

# None begins with a space: whole texts lose one where the tokenizer adds one.
SAMPLES = (
    "Hello, world! It's 12345.67 o'clock.",
    "two  spaces,\ttab\n\n\nand lines ",
    "naïve façade, Straße, ďábel",
    "日本語 русский عربى 👋🏽",
    "def f(x):\n    return {'a': [x, 2**x]}  # <b>",
)

NO_BYTE = 0xFFFF
_BYTE_TOKEN = re.compile(r"<0x([0-9A-Fa-f]{2})>")


def _byte_alphabet() -> dict[int, int]:
    """GPT-2's alphabet, in which printable bytes are themselves and the others follow from U+0100 on.

    A table for `str.translate`: it turns what is not in the alphabet, and would pass for a byte, into what would not.
    """
    printable = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    others = [byte for byte in range(0x100) if byte not in printable]
    return dict.fromkeys(others, NO_BYTE) | {0x100 + rank: byte for rank, byte in enumerate(others)}


@dataclass(frozen=True, slots=True)
class _Spelling:
    """How a token's string becomes bytes, as the steps of a decoder say it."""

    alphabet: dict[int, int] | None = None
    byte_tokens: bool = False
    replacements: tuple[tuple[str, str], ...] = ()
    drops_first_space: bool = False

    def spell(self, token: str) -> bytes:
        """The bytes of an ordinary token."""
        if self.alphabet is not None:
            try:
                return token.translate(self.alphabet).encode("latin-1")
            except UnicodeEncodeError:  # a character outside the alphabet: the token is its own text
                return token.encode()
        if self.byte_tokens and (match := _BYTE_TOKEN.fullmatch(token)):
            return bytes.fromhex(match[1])
        return self.replace(token)

    def spell_added(self, token: AddedToken) -> bytes:
        """The bytes of a token that was added whole: a special one is its literal."""
        return token.content.encode() if token.special else self.replace(token.content)

    def replace(self, token: str) -> bytes:
        """The token's string with the decoder's replacements, as UTF-8."""
        for old, new in self.replacements:
            token = token.replace(old, new)
        return token.encode()


def vocabulary_of(backend: Tokenizer) -> Vocabulary:
    """What each id of a tokenizer spells.

    Raises:
        ModelUnsupported: its decoder is of another kind than byte-level BPE's, SentencePiece's and
            Metaspace, or doesn't do what its kind does.
    """
    spelling = _spelling_of(backend)
    tokens = backend.get_vocab(with_added_tokens=True)
    pieces = [b""] * (max(tokens.values(), default=-1) + 1)
    for token, id_ in tokens.items():
        pieces[id_] = spelling.spell(token)
    added = backend.get_added_tokens_decoder()
    for id_, added_token in added.items():
        pieces[id_] = spelling.spell_added(added_token)
    special_ids = frozenset(id_ for id_, added_token in added.items() if added_token.special)
    vocabulary = Vocabulary(pieces, special_ids, drops_first_space=spelling.drops_first_space)
    _check(vocabulary, backend)
    return vocabulary


def _spelling_of(backend: Tokenizer) -> _Spelling:
    spelling = _Spelling()
    for step in _steps(json.loads(backend.decoder.__getstate__()) if backend.decoder else {"type": "None"}):
        match step:
            case {"type": "ByteLevel"}:
                spelling = replace(spelling, alphabet=_byte_alphabet())
            case {"type": "ByteFallback"}:
                spelling = replace(spelling, byte_tokens=True)
            case {"type": "Replace", "pattern": {"String": str(old)}, "content": str(new)}:
                spelling = replace(spelling, replacements=(*spelling.replacements, (old, new)))
            case {"type": "Metaspace", "replacement": str(old), "prepend_scheme": scheme}:
                replacements = (*spelling.replacements, (old, " "))
                spelling = replace(spelling, replacements=replacements, drops_first_space=scheme != "never")
            case {"type": "Strip", "content": " ", "start": 1, "stop": 0}:
                spelling = replace(spelling, drops_first_space=True)
            case {"type": "Fuse"}:
                pass  # joins tokens, which bytes do by themselves
            case _:
                raise ModelUnsupported(f"the tokenizer's decoder has a step that is not known here: {json.dumps(step)}")
    return spelling


def _steps(decoder: object) -> Iterator[object]:
    """The decoder's steps, sequences taken apart."""
    match decoder:
        case {"type": "Sequence", "decoders": [*inner]}:
            for step in inner:
                yield from _steps(step)
        case _:
            yield decoder


def _check(vocabulary: Vocabulary, backend: Tokenizer) -> None:
    """Refuse a tokenizer whose own decoding of samples is another text than the pieces'."""
    for encoding in backend.encode_batch(list(SAMPLES), add_special_tokens=False):
        expected = backend.decode(encoding.ids, skip_special_tokens=False)
        spelled = vocabulary.decode(encoding.ids, skip_special=False)
        if spelled != expected:
            raise ModelUnsupported(f"the tokenizer decodes {expected!r} and its pieces spell {spelled!r}")
