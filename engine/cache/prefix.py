"""PrefixIndex: which block holds the state of which tokens, by a key chained over the whole prefix."""

import hashlib
from array import array
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class _Entry:
    block: int
    parent: bytes
    tokens: tuple[int, ...]


class PrefixIndex:
    """Full blocks by prefix key.

    A key is SHA-256 over tagged fields: for a chain's start the cache layout and weights
    (`fingerprint`) and the tenant's salt, for each block its parent's key and its tokens. On a
    match parent and tokens are compared again, so that a collision of keys is a miss.
    """

    def __init__(self, *, fingerprint: str, block_size: int) -> None:
        self._fingerprint = fingerprint
        self._block_size = block_size
        self._entries: dict[bytes, _Entry] = {}
        self._key_of: dict[int, bytes] = {}

    def __len__(self) -> int:
        return len(self._entries)

    def root(self, salt: str) -> bytes:
        """The key that a chain with this tenant `salt` starts from."""
        return _digest(b"root", self._fingerprint.encode(), salt.encode(errors="surrogatepass"))

    def extend(self, keys: list[bytes], tokens: Sequence[int], *, salt: str, upto: int) -> None:
        """Append to `keys` the keys of the full blocks of `tokens` below position `upto` that are missing."""
        for start in range(len(keys) * self._block_size, upto - self._block_size + 1, self._block_size):
            parent = keys[-1] if keys else self.root(salt)
            keys.append(_digest(b"block", parent, array("q", tokens[start : start + self._block_size]).tobytes()))

    def match(self, keys: Sequence[bytes], tokens: Sequence[int], *, salt: str, max_tokens: int) -> list[int]:
        """The blocks that hold the longest known prefix of `tokens`, at most `max_tokens` of them."""
        blocks: list[int] = []
        parent = self.root(salt)
        for index, key in enumerate(keys[: max_tokens // self._block_size]):
            entry = self._entries.get(key)
            if entry is None or entry.parent != parent or entry.tokens != self._block_tokens(tokens, index):
                break
            blocks.append(entry.block)
            parent = key
        return blocks

    def insert(self, keys: Sequence[bytes], tokens: Sequence[int], index: int, block: int, *, salt: str) -> bool:
        """Note that `block` holds block number `index` of `tokens`; False if another block does already.

        The caller vouches that all positions of the block are computed and accepted.
        """
        if keys[index] in self._entries:
            return False
        parent = keys[index - 1] if index else self.root(salt)
        self._entries[keys[index]] = _Entry(block, parent, self._block_tokens(tokens, index))
        self._key_of[block] = keys[index]
        return True

    def forget(self, block: int) -> None:
        """Drop `block`: its content is about to be overwritten."""
        del self._entries[self._key_of.pop(block)]

    def _block_tokens(self, tokens: Sequence[int], index: int) -> tuple[int, ...]:
        return tuple(tokens[index * self._block_size : (index + 1) * self._block_size])

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
