"""Settings: how answers are made, as they are spelled at a terminal, and the values that the API takes."""

import math
from contextlib import suppress
from dataclasses import dataclass

UNSET = "none"


@dataclass(frozen=True, slots=True)
class Number:
    """A setting that is a number from `low` to `high`, or above `low`."""

    make: type[int] | type[float]
    low: float
    high: float = math.inf
    is_above: bool = False

    @property
    def allowed(self) -> str:
        """Completes the sentence "must be …"."""
        noun = "an integer" if self.make is int else "a number"
        if self.high == math.inf:
            return f"{noun} of at least {self.low}"
        return f"{noun} {f'above {self.low}, up to' if self.is_above else f'from {self.low} to'} {self.high}"

    def read(self, text: str) -> float:
        """The number that `text` spells.

        Raises:
            ValueError: it spells none that is allowed; the message says which are.
        """
        with suppress(ValueError):
            value = self.make(text)
            if self.low <= value <= self.high and not (self.is_above and value == self.low):
                return value
        raise ValueError(f"must be {self.allowed}, or {UNSET}")


SETTINGS: dict[str, Number | None] = {  # None: text
    "temperature": Number(float, 0, 2),
    "top_p": Number(float, 0, 1, is_above=True),
    "top_k": Number(int, -1),
    "min_p": Number(float, 0, 1),
    "max_tokens": Number(int, 1),
    "seed": Number(int, -(2**63), 2**64 - 1),
    "stop": None,
    "presence_penalty": Number(float, -2, 2),
    "frequency_penalty": Number(float, -2, 2),
    "repetition_penalty": Number(float, 0.01, 10),
    "max_draft_tokens": Number(int, 0),
    "reasoning_effort": None,
}


def read_setting(name: str, text: str) -> float | str | None:
    """The value that `text` spells for a setting; None takes it back.

    Raises:
        ValueError: it spells none that is allowed; the message says which are.
    """
    number = SETTINGS[name]
    if text == UNSET:
        return None
    return text if number is None else number.read(text)
