"""PrefixIndex: what in the cache holds the state of which tokens, by a key chained over the whole prefix."""

import hashlib
from array import array
from collections.abc import Sequence
from dataclasses import dataclass


class PrefixKeys:
    """The keys of full blocks.

    A key is SHA-256 over tagged fields: for a chain's start the cache layout and weights
    (`fingerprint`) and the tenant's salt, for each block its parent's key and its tokens.
    """

    def __init__(self, *, fingerprint: str, block_size: int) -> None:
        self._fingerprint = fingerprint
        self._block_size = block_size

    def root(self, salt: str) -> bytes:
        """The key that a chain with this tenant `salt` starts from."""
        return _digest(b"root", self._fingerprint.encode(), salt.encode(errors="surrogatepass"))

    def extend(self, keys: list[bytes], tokens: Sequence[int], *, salt: str, upto: int) -> None:
        """Append to `keys` the keys of the full blocks of `tokens` below position `upto` that are missing."""
        for start in range(len(keys) * self._block_size, upto - self._block_size + 1, self._block_size):
            parent = keys[-1] if keys else self.root(salt)
            keys.append(_digest(b"block", parent, array("q", tokens[start : start + self._block_size]).tobytes()))


@dataclass(frozen=True, slots=True)
class Prefix:
    """One sequence's chain: its keys, the tokens that they were made of, and the key before the first."""

    root: bytes
    keys: Sequence[bytes]
    tokens: Sequence[int]

    def parent(self, index: int) -> bytes:
        """The key before that of block number `index`."""
        return self.keys[index - 1] if index else self.root


@dataclass(frozen=True, slots=True)
class _Entry:
    block: int
    parent: bytes
    tokens: tuple[int, ...]
    number: int  # of the block within its sequence


class PrefixIndex:
    """Blocks of one cache group, or checkpoints, by the key of the last block of positions that they stand for.

    On a find the parent and the tokens are compared again, so that a collision of keys is a miss.
    """

    def __init__(self, *, block_size: int) -> None:
        self._block_size = block_size
        self._entries: dict[bytes, _Entry] = {}
        self._key_of: dict[int, bytes] = {}

    def __len__(self) -> int:
        return len(self._entries)

    def find(self, prefix: Prefix, index: int) -> int | None:
        """What is known for block number `index` of a sequence."""
        entry = self._entries.get(prefix.keys[index])
        if entry is None or entry.parent != prefix.parent(index) or entry.tokens != self._tokens(prefix, index):
            return None
        return entry.block

    def found(self, prefix: Prefix, index: int) -> int:
        """What `find` has just found."""
        return self._entries[prefix.keys[index]].block

    def insert(self, prefix: Prefix, index: int, block: int) -> bool:
        """Note that `block` stands for block number `index` of a sequence; False if another does already."""
        key = prefix.keys[index]
        if key in self._entries:
            return False
        self._entries[key] = _Entry(block, prefix.parent(index), self._tokens(prefix, index), index)
        self._key_of[block] = key
        return True

    def forget(self, block: int) -> None:
        """Drop `block`: its content is about to be overwritten."""
        del self._entries[self._key_of.pop(block)]

    def knows(self, block: int) -> bool:
        """Whether the content of `block` is known here."""
        return block in self._key_of

    def content_of(self, block: int) -> tuple[int, tuple[int, ...]]:
        """The number within its sequence, and the tokens, of a block that is known."""
        entry = self._entries[self._key_of[block]]
        return entry.number, entry.tokens

    def _tokens(self, prefix: Prefix, index: int) -> tuple[int, ...]:
        return tuple(prefix.tokens[index * self._block_size : (index + 1) * self._block_size])

    def check(self) -> None:
        """Assert that blocks and keys name each other, one to one."""
        assert len(self._entries) == len(self._key_of), "each entry has its block"
        for block, key in self._key_of.items():
            assert self._entries[key].block == block, f"block {block} is known by another's key"


def _digest(tag: bytes, *fields: bytes) -> bytes:
    """SHA-256 over a tag and length-prefixed fields, so that no two lists of fields look alike."""
    digest = hashlib.sha256()
    for field in (tag, *fields):
        digest.update(len(field).to_bytes(8, "little"))
        digest.update(field)
    return digest.digest()
