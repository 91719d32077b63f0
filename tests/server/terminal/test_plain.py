import pytest

from server.terminal.plain import plain


@pytest.mark.parametrize("text", ["a\x1b[2Jb", "a\x9b2J\rb\x7f", "a\n\tb\x00", "a\ud800b"])
def test_no_text_drives_a_terminal_or_breaks_what_writes_it(text: str) -> None:
    assert plain(text).isprintable()
    assert plain(text).encode().startswith(b"a")


def test_other_text_stays_as_it_is() -> None:
    assert plain("Qwen/Größe 東京") == "Qwen/Größe 東京"
