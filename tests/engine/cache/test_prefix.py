from collections.abc import Sequence

import pytest

from engine.cache.prefix import Prefix, PrefixIndex, PrefixKeys

TOKENS = (5, 6, 7, 8, 9, 10, 11)


def some_keys(fingerprint: str = "layout and weights", block_size: int = 2) -> PrefixKeys:
    return PrefixKeys(fingerprint=fingerprint, block_size=block_size)


def an_index() -> PrefixIndex:
    return PrefixIndex(block_size=2)


def keys_of(keys: PrefixKeys, tokens: Sequence[int] = TOKENS, salt: str = "") -> list[bytes]:
    made: list[bytes] = []
    keys.extend(made, tokens, salt=salt, upto=len(tokens))
    return made


def prefix(tokens: Sequence[int] = TOKENS, salt: str = "") -> Prefix:
    keys = some_keys()
    return Prefix(keys.root(salt), keys_of(keys, tokens, salt), tokens)


def insert_all(index: PrefixIndex, tokens: Sequence[int] = TOKENS, salt: str = "", first_block: int = 0) -> None:
    mine = prefix(tokens, salt)
    for number in range(len(mine.keys)):
        assert index.insert(mine, number, first_block + number)


def found(index: PrefixIndex, prefix: Prefix) -> list[int | None]:
    """What is known of each block of positions."""
    return [index.find(prefix, number) for number in range(len(prefix.keys))]


# -- keys -------------------------------------------------------------------------------------


def test_only_full_blocks_have_keys() -> None:
    assert len(keys_of(some_keys(), TOKENS)) == 3
    assert len(keys_of(some_keys(), TOKENS[:1])) == 0


def test_keys_that_are_there_are_not_made_again() -> None:
    keys = some_keys()
    made: list[bytes] = []
    keys.extend(made, TOKENS, salt="", upto=5)
    some = list(made)
    keys.extend(made, TOKENS, salt="", upto=7)

    assert made[:2] == some
    assert made == keys_of(keys)


@pytest.mark.parametrize(
    "other",
    [
        keys_of(some_keys(), salt="tenant"),
        keys_of(some_keys(fingerprint="other weights")),
        keys_of(some_keys(block_size=1)),
        keys_of(some_keys(), (4, *TOKENS[1:])),
    ],
    ids=["salt", "fingerprint", "block size", "first token"],
)
def test_every_field_that_changes_the_content_changes_all_keys(other: list[bytes]) -> None:
    assert not set(other) & set(keys_of(some_keys()))


def test_a_salt_and_a_fingerprint_cannot_stand_in_for_each_other() -> None:
    assert some_keys("ab").root("c") != some_keys("a").root("bc")
    assert some_keys("tenant").root("") != some_keys("").root("tenant")


def test_a_salt_may_hold_a_lone_surrogate() -> None:
    assert some_keys().root("\ud800") != some_keys().root("")


# -- what is known ----------------------------------------------------------------------------


def test_every_block_of_a_known_prefix_is_found_and_none_beyond_it() -> None:
    index = an_index()
    insert_all(index)

    assert found(index, prefix((*TOKENS, 12))) == [0, 1, 2, None]
    assert found(index, prefix((5, 6, 7, 8, 1, 1))) == [0, 1, None]
    assert found(index, prefix((5, 1, 7, 8))) == [None, None]
    assert [index.found(prefix(), number) for number in range(3)] == [0, 1, 2]


def test_the_same_tokens_after_another_beginning_are_not_found() -> None:
    index = an_index()
    insert_all(index, (1, 2, 3, 4))

    assert found(index, prefix((9, 9, 3, 4))) == [None, None]
    assert found(index, prefix((3, 4))) == [None]


def test_another_tenant_finds_nothing() -> None:
    index = an_index()
    insert_all(index, salt="one")

    assert found(index, prefix(salt="two")) == [None] * 3
    assert found(index, prefix(salt="one")) == [0, 1, 2]


def test_keys_that_collide_are_a_miss() -> None:
    index = an_index()
    insert_all(index)
    mine = prefix()

    assert found(index, Prefix(mine.root, mine.keys, (5, 6, 7, 9, 9, 10))) == [0, None, 2]
    assert found(index, Prefix(some_keys().root("other"), mine.keys, TOKENS)) == [None, 1, 2]
    assert found(index, Prefix(mine.root, [mine.keys[0], mine.keys[0]], (5, 6, 5, 6))) == [0, None], "another parent"


def test_a_block_is_known_once_for_its_content() -> None:
    index = an_index()
    insert_all(index)

    assert not index.insert(prefix(), 0, 7)
    assert found(index, prefix()) == [0, 1, 2]
    assert not index.knows(7)


def test_a_forgotten_block_leaves_those_around_it_known() -> None:
    index = an_index()
    insert_all(index)

    index.forget(1)

    assert found(index, prefix()) == [0, None, 2]
    assert (len(index), [index.knows(block) for block in range(3)]) == (2, [True, False, True])
    index.check()


def test_a_block_that_returns_joins_what_followed_it() -> None:
    index = an_index()
    insert_all(index)
    index.forget(1)

    assert index.insert(prefix(), 1, 8)

    assert found(index, prefix()) == [0, 8, 2]


def test_a_block_may_stand_alone_behind_what_was_never_known() -> None:
    index = an_index()

    assert index.insert(prefix(), 2, 5)

    assert found(index, prefix()) == [None, None, 5]


def test_a_check_finds_a_block_under_a_foreign_key() -> None:
    index = an_index()
    insert_all(index)
    index._key_of[0], index._key_of[1] = index._key_of[1], index._key_of[0]

    with pytest.raises(AssertionError, match="by another's key"):
        index.check()
