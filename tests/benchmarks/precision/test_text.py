import pytest

from benchmarks.precision.text import TextTooShort, reference_text, windows


def test_windows_follow_each_other_and_each_begins_as_a_prompt_does() -> None:
    assert windows(range(10, 20), [1], count=3, length=4) == [(1, 10, 11, 12), (1, 13, 14, 15), (1, 16, 17, 18)]


def test_a_text_that_is_too_short_is_refused_with_the_numbers() -> None:
    with pytest.raises(TextTooShort, match=r"3 windows of 4 take 12 tokens, and the text has 11"):
        windows(range(11), [], count=3, length=4)


def test_pythons_reference_has_enough_text_and_a_paragraph_a_line() -> None:
    text = reference_text()

    assert len(text) > 80_000  # some four characters a token
    assert "\n\n" in text
    assert all(line == " ".join(line.split()) for line in text.split("\n\n"))
