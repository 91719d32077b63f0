"""Puts each fault into a copy of the tree and runs the tests that must find it: `python -m tests.mutants [FAULT…]`.

Prints a table; exits with 1 if a mutant survives, with 2 if the tests fail without one. With `--write` it remembers
for the next time which tests found them.
"""

import argparse
import sys
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.mutants.edits import Mutant
from tests.mutants.faults import MUTANTS
from tests.mutants.finders import read_finders, remember_finders
from tests.mutants.groups import Group, group_of
from tests.mutants.judge import Verdict, judge, unharmed
from tests.mutants.tree import Copies
from tests.mutants.trial import Failure

NUM_COPIES = 2  # as many at once as a small machine has cores


class Bench:
    """Runs the tests of several mutants at once, each in a copy of the tree."""

    def __init__(self, copies: Copies, pool: ThreadPoolExecutor) -> None:
        self._copies = copies
        self._pool = pool

    def verdicts(self, mutants: Sequence[Mutant], finders: Mapping[str, str]) -> Iterator[Verdict]:
        """What comes of each mutant, in their order."""

        def judged(mutant: Mutant) -> Verdict:
            with self._copies.lent() as root:
                return judge(root, mutant, finders.get(mutant.name))

        return self._pool.map(judged, mutants)

    def failures_unharmed(self, verdicts: Sequence[Verdict]) -> Iterator[Failure | None]:
        """What fails without a mutant, for each group of tests that the verdicts rest on."""

        def tried(group: Group) -> Failure | None:
            with self._copies.lent() as root:
                return unharmed(root, group, [each for each in verdicts if group_of(each.mutant) == group])

        return self._pool.map(tried, dict.fromkeys(group_of(verdict.mutant) for verdict in verdicts))


def show(verdict: Verdict) -> None:
    """Print the mutant's lines of the table."""
    mutant, failure = verdict.mutant, verdict.failure
    word = "SURVIVED" if failure is None else "killed"
    sys.stdout.write(f"{mutant.fault:7} {word:8} {verdict.seconds:5.0f} s  {mutant.what}\n")
    how = "-" if failure is None else failure.told
    sys.stdout.write(f"{'':26}{how}{'' if verdict.by_finder else '  (of the whole group)'}\n")
    sys.stdout.flush()


def main(arguments: Sequence[str]) -> int:
    """Judge the mutants of the wanted faults, or all."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("faults", nargs="*", metavar="FAULT", help="faults whose mutants are judged, by default all")
    parser.add_argument("--write", action="store_true", help="remember in finders.json which tests found them")
    options = parser.parse_args(arguments)
    mutants = [mutant for mutant in MUTANTS if not options.faults or mutant.fault in options.faults]
    finders, verdicts = read_finders(), []
    with TemporaryDirectory() as folder, ThreadPoolExecutor(NUM_COPIES) as pool:
        copies = Copies(Path(folder), NUM_COPIES, compiled=any(mutant.compiled for mutant in mutants))
        bench = Bench(copies, pool)
        for verdict in bench.verdicts(mutants, finders):
            show(verdict)
            verdicts.append(verdict)
        for failure in filter(None, bench.failures_unharmed(verdicts)):
            sys.stderr.write(f"{failure.told} without a mutant\n")
            return 2
    if options.write:
        remember_finders({each.mutant.name: each.finder for each in verdicts if each.finder is not None})
    num_killed = sum(verdict.failure is not None for verdict in verdicts)
    sys.stdout.write(f"{num_killed} of {len(mutants)} mutants killed\n")
    return 0 if num_killed == len(mutants) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
