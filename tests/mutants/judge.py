"""Who finds a mutant: its finder, the test that found it last time, is tried first; if it does not, the whole group is.

So no finder can say that a mutant survives: which ones are known changes nothing but the time. A failure tells of
the mutant only if the same tests pass without it. They are run once all mutants have been judged, when it is known
which they are: the finders of a group in one process, or the whole group where a mutant needed it.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.mutants.edits import Mutant
from tests.mutants.groups import Group, group_of
from tests.mutants.tree import harmed
from tests.mutants.trial import Failure, NothingRan, first_failure


@dataclass(frozen=True, slots=True)
class Verdict:
    """What came of a mutant: the failure that its finder or else its group brought, None if it survived."""

    mutant: Mutant
    failure: Failure | None
    by_finder: bool
    seconds: float

    @property
    def finder(self) -> str | None:
        """The test to try first next time."""
        return None if self.failure is None else self.failure.test


def judge(root: Path, mutant: Mutant, finder: str | None) -> Verdict:
    """Put the mutant into the tree at `root`, and run tests until one fails."""
    began, group = time.monotonic(), group_of(mutant)
    with harmed(root, mutant):
        found = None if finder is None else _found_by(root, finder, group)
        failure = found or first_failure(root, group.arguments)
    return Verdict(mutant, failure, found is not None, time.monotonic() - began)


def _found_by(root: Path, finder: str, group: Group) -> Failure | None:
    try:
        return first_failure(root, (*group.options, finder))
    except NothingRan:  # renamed or gone since, or not to be imported with the mutant
        return None


def unharmed(root: Path, group: Group, verdicts: Sequence[Verdict]) -> Failure | None:
    """What fails without a mutant too, of the tests that the verdicts rest on."""
    if not all(verdict.by_finder for verdict in verdicts):
        return first_failure(root, group.arguments)
    finders = dict.fromkeys(verdict.finder for verdict in verdicts if verdict.finder is not None)
    return first_failure(root, (*group.options, *finders))
