"""What a benchmark with a page of its own does: refuse early, measure, print, and write between the page's marks."""

import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from benchmarks.table import put_between


def written(page: str, sections: Mapping[str, str]) -> str:
    """The page with each section between its marks. Raises ValueError where marks are missing."""
    for mark, text in sections.items():
        page = put_between(page, mark, text)
    return page


def fill(
    page: Path | None,
    marks: Iterable[str],
    measured: Callable[[], Mapping[str, str]],
    *,
    refusals: tuple[type[Exception], ...],
) -> int:
    """Measure, print, and put the sections into the page unless it is None; the exit code of the process.

    Of `refusals`, and of marks that are missing, the message alone is told.
    """
    told: tuple[type[Exception], ...] = (*refusals, ValueError)
    try:
        if page is not None:
            written(page.read_text(), dict.fromkeys(marks, ""))  # refused before the work, not behind it
        sections = measured()
    except told as error:
        print(error, file=sys.stderr)
        return 1
    print("\n\n".join(sections.values()))
    if page is not None:
        page.write_text(written(page.read_text(), sections))
    return 0
