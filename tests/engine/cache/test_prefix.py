from collections.abc import Sequence

import pytest

from engine.cache.prefix import PrefixIndex

TOKENS = (5, 6, 7, 8, 9, 10, 11)


def an_index(fingerprint: str = "layout and weights", block_size: int = 2) -> PrefixIndex:
    return PrefixIndex(fingerprint=fingerprint, block_size=block_size)


def keys_of(index: PrefixIndex, tokens: Sequence[int] = TOKENS, salt: str = "") -> list[bytes]:
    keys: list[bytes] = []
    index.extend(keys, tokens, salt=salt, upto=len(tokens))
    return keys


def insert_all(index: PrefixIndex, tokens: Sequence[int] = TOKENS, salt: str = "", first_block: int = 0) -> None:
    keys = keys_of(index, tokens, salt)
    for number in range(len(keys)):
        assert index.insert(keys, tokens, number, first_block + number, salt=salt)


def match(index: PrefixIndex, tokens: Sequence[int] = TOKENS, salt: str = "", max_tokens: int = 99) -> list[int]:
    return index.match(keys_of(index, tokens, salt), tokens, salt=salt, max_tokens=max_tokens)


def test_only_full_blocks_have_keys() -> None:
    index = an_index()

    assert len(keys_of(index, TOKENS)) == 3
    assert len(keys_of(index, TOKENS[:1])) == 0


def test_keys_that_are_there_are_not_made_again() -> None:
    index = an_index()
    keys: list[bytes] = []
    index.extend(keys, TOKENS, salt="", upto=5)
    some = list(keys)
    index.extend(keys, TOKENS, salt="", upto=7)

    assert keys[:2] == some
    assert keys == keys_of(index)


def test_the_longest_known_prefix_is_matched_in_whole_blocks() -> None:
    index = an_index()
    insert_all(index)

    assert match(index, (*TOKENS, 12)) == [0, 1, 2]
    assert match(index, (5, 6, 7, 8, 1, 1)) == [0, 1]
    assert match(index, (5, 1, 7, 8)) == []


def test_a_match_is_cut_to_the_limit() -> None:
    index = an_index()
    insert_all(index)

    assert match(index, max_tokens=5) == [0, 1]
    assert match(index, max_tokens=1) == []


def test_the_same_tokens_after_another_beginning_are_no_match() -> None:
    index = an_index()
    insert_all(index, (1, 2, 3, 4))

    assert match(index, (9, 9, 3, 4)) == []
    assert match(index, (3, 4)) == []


@pytest.mark.parametrize(
    "other",
    [
        keys_of(an_index(), salt="tenant"),
        keys_of(an_index(fingerprint="other weights")),
        keys_of(an_index(block_size=1)),
        keys_of(an_index(), (4, *TOKENS[1:])),
    ],
    ids=["salt", "fingerprint", "block size", "first token"],
)
def test_every_field_that_changes_the_content_changes_all_keys(other: list[bytes]) -> None:
    assert not set(other) & set(keys_of(an_index()))


def test_a_salt_and_a_fingerprint_cannot_stand_in_for_each_other() -> None:
    assert an_index("ab").root("c") != an_index("a").root("bc")
    assert an_index("tenant").root("") != an_index("").root("tenant")


def test_another_tenant_gets_no_match() -> None:
    index = an_index()
    insert_all(index, salt="one")

    assert match(index, salt="two") == []
    assert match(index, salt="one") == [0, 1, 2]


def test_keys_that_collide_are_a_miss() -> None:
    index = an_index()
    insert_all(index)
    keys = keys_of(index)

    assert index.match(keys, (5, 6, 7, 9, 9, 10), salt="", max_tokens=99) == [0]
    assert index.match(keys, TOKENS, salt="other", max_tokens=99) == []


def test_a_block_is_known_once_for_its_content() -> None:
    index = an_index()
    insert_all(index)
    keys = keys_of(index)

    assert not index.insert(keys, TOKENS, 0, 7, salt="")
    assert match(index) == [0, 1, 2]


def test_a_forgotten_block_ends_the_match() -> None:
    index = an_index()
    insert_all(index)

    index.forget(1)

    assert match(index) == [0]
    assert len(index) == 2
    index.check()


def test_a_block_that_returns_joins_what_followed_it() -> None:
    index = an_index()
    insert_all(index)
    index.forget(1)

    assert index.insert(keys_of(index), TOKENS, 1, 8, salt="")

    assert match(index) == [0, 8, 2]


def test_a_salt_may_hold_a_lone_surrogate() -> None:
    assert an_index().root("\ud800") != an_index().root("")


def test_a_check_finds_a_block_under_a_foreign_key() -> None:
    index = an_index()
    insert_all(index)
    index._key_of[0], index._key_of[1] = index._key_of[1], index._key_of[0]

    with pytest.raises(AssertionError, match="by another's key"):
        index.check()
