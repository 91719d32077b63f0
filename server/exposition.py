"""Exposition: families of samples as text, in both formats that Prometheus reads.

prometheus_client writes the same with some ten calls for each sample, and all of it on the event loop, at every scrape.
The tests let it read what is written here and write it again.
"""

from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import NamedTuple

Labels = tuple[tuple[str, str], ...]  # names and values


class Kind(StrEnum):
    """What a family is, in OpenMetrics' words."""

    GAUGE = "gauge"
    COUNTER = "counter"
    HISTOGRAM = "histogram"
    INFO = "info"

    def sample_of(self, family: str) -> str:
        """The name of a family's samples; those of a histogram go on from there."""
        return family + _SUFFIXES.get(self, "")


_SUFFIXES = {Kind.COUNTER: "_total", Kind.INFO: "_info"}


class Family(NamedTuple):
    """One family: its name without a suffix, what it is, a sentence about it, and a line for each sample."""

    name: str
    kind: Kind
    text: str
    lines: Sequence[str]


def sample(name: str, labels: Labels, value: float) -> str:
    """The line of one number."""
    named = ",".join(f'{label}="{_escaped(text)}"' for label, text in sorted(labels))
    return f"{name}{{{named}}} {float(value)!r}\n" if named else f"{name} {float(value)!r}\n"


def distribution(name: str, labels: Labels, counts: Sequence[tuple[str, int]], total: float) -> list[str]:
    """The lines of one histogram: how many there were up to each bound, the last of which is above all; their sum."""
    before = "".join(f'{label}="{_escaped(text)}",' for label, text in sorted(labels) if label < "le")
    behind = "".join(f',{label}="{_escaped(text)}"' for label, text in sorted(labels) if label > "le")
    lines = [f'{name}_bucket{{{before}le="{bound}"{behind}}} {count}.0\n' for bound, count in counts]
    return [*lines, sample(f"{name}_count", labels, counts[-1][1]), sample(f"{name}_sum", labels, total)]


def prometheus_text(families: Iterable[Family]) -> str:
    """Prometheus' own format: it has no infos, and a family has the name of its samples."""
    return "".join(_family(each, each.kind.sample_of(each.name), _known_kind(each.kind)) for each in families)


def openmetrics_text(families: Iterable[Family]) -> str:
    """OpenMetrics' format."""
    return "".join(_family(each, each.name, each.kind) for each in families) + "# EOF\n"


def _known_kind(kind: Kind) -> Kind:
    return Kind.GAUGE if kind is Kind.INFO else kind


def _family(family: Family, name: str, kind: Kind) -> str:
    return f"# HELP {name} {family.text}\n# TYPE {name} {kind}\n{''.join(family.lines)}"


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")
