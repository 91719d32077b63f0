"""Claims: what was tried, over how many, and whether it held; told as a table."""

import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.page import fill
from benchmarks.table import markdown


@dataclass(frozen=True, slots=True)
class Claim:
    """What was tried. `failure` None says that it held; a count of 0 that it could not be tried here."""

    text: str
    count: int
    failure: str | None = None

    @classmethod
    def over(cls, text: str, each: Sequence[str], missing: Callable[[str], bool]) -> "Claim":
        """A claim about each of several; those for which it is missing are its failure."""
        missed = [one for one in each if missing(one)]
        return cls(text, len(each), "; ".join(missed) or None)

    @property
    def row(self) -> tuple[str, str, str]:
        """Its row of the table."""
        result = "did not hold" if self.failure is not None else "held" if self.count else "not tried"
        return self.text, str(self.count), result


def tell(claims: Callable[[], Iterable[Claim]], *, page: Path | None, mark: str) -> int:
    """Try all, print the table, put it into the page unless it is None; 1 where a claim did not hold."""
    tried: list[Claim] = []

    def found() -> dict[str, str]:
        tried.extend(claims())
        return {mark: markdown(("what was tried", "over how many", "result"), [claim.row for claim in tried])}

    code = fill(page, [mark], found, refusals=(TimeoutError,))
    for claim in tried:
        if claim.failure is not None:
            print(f"{claim.text}: {claim.failure}", file=sys.stderr)
    return code or int(any(claim.failure is not None for claim in tried))
