"""Control tokens in a conversation: the chat template writes them; where a message spells one, it stays text.

A message's spelling of a control token is cut after its first character, before the template sees
it. The rendered text is encoded cut by cut, so no token can reach over one. The cut is a lone
surrogate, which text from a client can't hold once it is cleaned, so nothing is lost or forged.
"""

import re
from collections.abc import Sequence

CUT = "\ud800"

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
        self._tokens = [token for token in tokens if len(token) > 1]  # a single character can't be cut
        self._firsts = {token[0] for token in self._tokens}

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
        """One search for each token: no call keeps other threads waiting for long, however long the text is."""
        if not any(first in text for first in self._firsts):
            return text
        for token in self._tokens:
            while token in text:  # again where it overlaps itself
                text = text.replace(token, f"{token[0]}{CUT}{token[1:]}")
        return text
