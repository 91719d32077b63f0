from engine.text import Vocabulary
from server.prompt import Prompt
from server.render.completions import echo_of

SPACED = Vocabulary([b" Hello", b" you", b"<s>", b"\xe2\x82", b"\xac"], frozenset({2}), drops_first_space=True)


def test_a_space_that_the_tokenizer_adds_shifts_no_offset() -> None:
    given = echo_of(Prompt((2, 0, 1), "Hello you"), SPACED, skip_special=True)
    decoded = echo_of(Prompt((2, 0, 1)), SPACED, skip_special=True)

    assert given == decoded
    assert given.text == "Hello you"
    assert given.offsets == (0, 0, 5)


def test_a_token_within_a_character_begins_where_the_character_does() -> None:
    echo = echo_of(Prompt((1, 3, 4, 1)), SPACED, skip_special=True)

    assert echo.text == "you€ you"
    assert echo.offsets == (0, 3, 3, 4)


def test_a_text_that_the_tokenizer_changed_keeps_its_offsets_within_it() -> None:
    echo = echo_of(Prompt((0, 1, 1), "HELLO"), SPACED, skip_special=True)

    assert echo.text == "HELLO"
    assert max(echo.offsets) <= len(echo.text)


def test_control_tokens_are_in_the_text_only_where_they_are_asked_for() -> None:
    assert echo_of(Prompt((2, 1)), SPACED, skip_special=False).text == "<s> you"
    assert echo_of(Prompt((2, 1)), SPACED, skip_special=True).text == "you"
