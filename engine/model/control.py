"""Control tokens in a conversation: the chat template writes them; where a message spells one, it stays text.

A message's spelling of a control token is cut after its first character, before the template sees
it. The rendered text is encoded cut by cut, so no token can reach over one. The cut is a lone
surrogate, which text from a client can't hold once it is cleaned, so nothing is lost or forged.
"""

import re
from collections.abc import Sequence

CUT = "\ud800"
STRETCH = 1 << 16  # characters; 25 ms at worst with Llama 3's 256 special tokens

_SURROGATE = re.compile("[\ud800-\udfff]")


def clean(text: str) -> str:
    """The text with U+FFFD for each lone surrogate, which no encoding can carry."""
    try:
        text.encode()  # many times faster than looking for what is rarely there
    except UnicodeEncodeError:
        return _SURROGATE.sub("\ufffd", text)
    return text


class ControlTokens:
    """The spellings to cut: `special` everywhere, `templated` too but in the assistant's own messages.

    `templated` are added tokens that aren't special, yet that the template writes (`<think>`,
    `<tool_call>`; some models' role markers). The assistant's messages are the model's output,
    where they were tokens.
    """

    def __init__(self, special: Sequence[str], templated: Sequence[str]) -> None:
        self._special = _Spellings(special)
        self._all = _Spellings([*special, *templated])

    def cut_message(self, message: dict[str, object]) -> dict[str, object]:
        """The message with every control token's spelling cut, however deep it lies."""
        spellings = self._special if message.get("role") == "assistant" else self._all
        return {key: spellings.cut(value) for key, value in message.items()}

    def cut_variables(self, variables: dict[str, object]) -> dict[str, object]:
        """Template variables with every control token's spelling cut."""
        return {name: self._all.cut(value) for name, value in variables.items()}


class _Spellings:
    """Tokens to be cut wherever they are spelled."""

    def __init__(self, tokens: Sequence[str]) -> None:
        longer = [token for token in tokens if len(token) > 1]  # a single character can't be cut
        self._longest = max(map(len, longer), default=0)
        self._pattern = _beginnings(longer)

    def cut(self, value: object) -> object:
        """The value with all its strings cleaned and cut."""
        match value:
            case str():
                return self._cut_text(clean(value))
            case dict():
                return {self.cut(key): self.cut(inner) for key, inner in value.items()}
            case list() | tuple():
                return [self.cut(inner) for inner in value]
            case _:
                return value

    def _cut_text(self, text: str) -> str:
        """Stretch by stretch: a search keeps other threads waiting, and a text may be very long."""
        parts, last = [], 0
        for start in range(0, len(text), STRETCH):
            stop = start + STRETCH
            for match in self._pattern.finditer(text, start, stop + self._longest):
                if match.start() < stop:
                    parts.append(text[last : match.end()])
                    last = match.end()
        return CUT.join([*parts, text[last:]])


def _beginnings(tokens: Sequence[str]) -> re.Pattern[str]:
    """Matches the first character of every place where one of the tokens is spelled, overlaps included."""
    rests: dict[str, list[str]] = {}
    for token in tokens:
        rests.setdefault(token[0], []).append(re.escape(token[1:]))
    return re.compile("|".join(f"{re.escape(first)}(?={'|'.join(rest)})" for first, rest in rests.items()) or "(?!)")
