"""Plain: text from a server as a terminal may be given it."""

_CONTROLS = (*range(0x20), *range(0x7F, 0xA0))
_SURROGATES = range(0xD800, 0xE000)  # JSON can hold them alone, and no encoding can
_DROPPED = dict.fromkeys((*_CONTROLS, *_SURROGATES))


def plain(text: str) -> str:
    """The same on one line, without what would drive the terminal or can't be written."""
    return text.translate(_DROPPED)
