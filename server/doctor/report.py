"""Report: the findings as lines for people, or as JSON."""

import json
import textwrap
from collections.abc import Iterator, Sequence

from server.doctor.findings import Finding, Grade, Section, plural

MIN_WIDTH, MAX_WIDTH = 60, 120
MARKS = {Grade.OK: "", Grade.NOTE: "note", Grade.WARNING: "warning", Grade.FAULT: "FAULT"}
MARK_WIDTH = max(map(len, MARKS.values()))


def prevents(sections: Sequence[Section]) -> bool:
    """Whether something would keep a server from serving."""
    return any(finding.grade is Grade.FAULT for finding in _all(sections))


def as_text(sections: Sequence[Section], *, width: int) -> str:
    """Sections, aligned; advice stands below what it is about."""
    topics = max(len(finding.topic) for finding in _all(sections))
    width = max(MIN_WIDTH, min(width, MAX_WIDTH))
    blocks = ["\n".join([section.name, *_lines(section.findings, topics, width)]) for section in sections]
    return "\n\n".join([*blocks, _sum(sections)]) + "\n"


def _lines(findings: Sequence[Finding], topics: int, width: int) -> Iterator[str]:
    for finding in findings:
        head = f"  {MARKS[finding.grade]:{MARK_WIDTH}}  {finding.topic:{topics}}  "
        indent = " " * len(head)
        yield _wrapped(finding.text, width, first=head, rest=indent)
        if finding.advice:
            yield _wrapped(finding.advice, width, first=f"{indent}→ ", rest=f"{indent}  ")


def _wrapped(text: str, width: int, *, first: str, rest: str) -> str:
    return textwrap.fill(
        text, width, initial_indent=first, subsequent_indent=rest, break_long_words=False, break_on_hyphens=False
    )


def _sum(sections: Sequence[Section]) -> str:
    counts = {grade: sum(finding.grade is grade for finding in _all(sections)) for grade in Grade}
    told = [plural(counts[grade], grade.value) for grade in (Grade.FAULT, Grade.WARNING, Grade.NOTE) if counts[grade]]
    verdict = "This would prevent serving" if prevents(sections) else "Nothing here would prevent serving"
    return f"{verdict}: {', '.join(told)}." if told else f"{verdict}."


def as_json(sections: Sequence[Section]) -> str:
    """One object: the verdict, and the findings by section."""
    body = {
        "serves": not prevents(sections),
        "sections": [
            {"name": section.name, "findings": [_object(each) for each in section.findings]} for section in sections
        ],
    }
    return json.dumps(body, ensure_ascii=False, indent=1) + "\n"


def _object(finding: Finding) -> dict[str, str | None]:
    return {
        "topic": finding.topic,
        "grade": finding.grade.value,
        "text": finding.text,
        "advice": finding.advice or None,
    }


def _all(sections: Sequence[Section]) -> Iterator[Finding]:
    for section in sections:
        yield from section.findings
