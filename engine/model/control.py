"""Control tokens in a conversation: the chat template writes them; where a message spells one, it stays text.

A message's spelling of a control token is cut after its first character, before the template sees
it. The rendered text is encoded cut by cut, so no token can reach over one. The cut is a lone
surrogate, which text from a client can't hold once it is cleaned, so nothing is lost or forged.
"""

import re
from collections import defaultdict
from collections.abc import Iterable

CUT = "\ud800"

_SURROGATE = re.compile("[\ud800-\udfff]")


def clean(text: str) -> str:
    """The text with U+FFFD for each lone surrogate, which no encoding can carry."""
    return _SURROGATE.sub("\ufffd", text)


class ControlTokens:
    """The spellings to cut: `special` everywhere, `templated` too but in the assistant's own messages.

    `templated` are added tokens that aren't special, yet that the template writes (`<think>`,
    `<tool_call>`; some models' role markers). The assistant's messages are the model's output,
    where they were tokens.
    """

    def __init__(self, special: Iterable[str], templated: Iterable[str]) -> None:
        special = tuple(special)
        self._special = _beginnings(special)
        self._all = _beginnings((*special, *templated))

    def cut_message(self, message: dict[str, object]) -> dict[str, object]:
        """The message with every control token's spelling cut, however deep it lies."""
        pattern = self._special if message.get("role") == "assistant" else self._all
        return {key: _cut(value, pattern) for key, value in message.items()}

    def cut_variables(self, variables: dict[str, object]) -> dict[str, object]:
        """Template variables with every control token's spelling cut."""
        return {name: _cut(value, self._all) for name, value in variables.items()}


def _beginnings(tokens: Iterable[str]) -> re.Pattern[str]:
    """Matches the first character of every place where one of the tokens is spelled, overlaps included."""
    rests: dict[str, list[str]] = defaultdict(list)
    for token in tokens:
        if len(token) > 1:  # a single character can't be cut
            rests[token[0]].append(re.escape(token[1:]))
    alternatives = (f"{re.escape(first)}(?={'|'.join(rest)})" for first, rest in rests.items())
    return re.compile("|".join(alternatives) or "(?!)")


def _cut(value: object, pattern: re.Pattern[str]) -> object:
    match value:
        case str():
            return pattern.sub(rf"\g<0>{CUT}", clean(value))
        case dict():
            return {_cut(key, pattern): _cut(inner, pattern) for key, inner in value.items()}
        case list() | tuple():
            return [_cut(inner, pattern) for inner in value]
        case _:
            return value
