"""Findings: what was seen, how good it is, and what to change."""

from dataclasses import dataclass
from enum import Enum

NOT_KNOWN = "not known"


class Grade(Enum):
    """How good a finding is. A fault prevents serving."""

    OK = "ok"
    NOTE = "note"
    WARNING = "warning"
    FAULT = "fault"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at; `advice` says what to change and how, where there is something."""

    topic: str
    text: str
    grade: Grade = Grade.OK
    advice: str = ""


@dataclass(frozen=True, slots=True)
class Section:
    """The findings about one subject."""

    name: str
    findings: tuple[Finding, ...]


def bytes_told(count: float) -> str:
    """A size for people, in the units that settings take."""
    for unit in ("bytes", "KiB", "MiB"):
        if count < 1024:  # noqa: PLR2004  # of each unit in the next
            return f"{count:.0f} {unit}"
        count /= 1024
    return f"{count:.1f} GiB"


def plural(count: int, noun: str, many: str = "") -> str:
    """A count with its noun."""
    return f"{count} {noun if count == 1 else many or noun + 's'}"
