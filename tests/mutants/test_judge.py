from pathlib import Path

import pytest

from tests.mutants import begun
from tests.mutants.edits import Edit, Mutant
from tests.mutants.groups import LOGS
from tests.mutants.judge import Verdict, judge, unharmed
from tests.mutants.trial import Failure

MODULE = "def one():\n    return 1\n\n\ndef two():\n    return 2\n"
FIRST, SECOND = LOGS.tests
TESTS = {
    FIRST: "import thing\n\n\ndef test_one():\n    open('first', 'w').close()\n    assert thing.one() == 1\n",
    SECOND: "import thing\n\n\ndef test_sum():\n    assert thing.one() + thing.two() > 2\n",
}
ONE, SUM = f"{FIRST}::test_one", f"{SECOND}::test_sum"
WRONG = Mutant("logs", "one is wrong", (Edit("thing.py", "one", "1", "0"),))
HARMLESS = Mutant("logs", "nobody minds", (Edit("thing.py", "two", "2", "3"),))


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A tree with a module and the two files of a group's tests, of which the first leaves a trace."""
    sources = {"thing.py": MODULE, "tests/mutants/begun.py": Path(begun.__file__).read_text(encoding="utf-8"), **TESTS}
    for name, source in sources.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(source, encoding="utf-8")
    return tmp_path


def verdict(mutant: Mutant, finder: str, *, by_finder: bool = True) -> Verdict:
    return Verdict(mutant, Failure(finder, "fails"), by_finder, 1.0)


def test_a_mutant_that_its_finder_finds_needs_no_other_test(root: Path) -> None:
    found = judge(root, WRONG, SUM)

    assert (found.failure, found.by_finder) == (Failure(SUM, "fails"), True)
    assert not (root / "first").exists()


@pytest.mark.parametrize("finder", [None, f"{SECOND}::test_gone"])
def test_a_mutant_without_a_finder_is_given_its_whole_group(root: Path, finder: str | None) -> None:
    found = judge(root, WRONG, finder)

    assert (found.failure, found.by_finder) == (Failure(ONE, "fails"), False)


def test_what_the_finder_does_not_find_the_whole_group_may(root: Path) -> None:
    (root / SECOND).write_text("def test_sum():\n    pass\n", encoding="utf-8")

    assert judge(root, WRONG, SUM).finder == ONE


def test_a_mutant_survives_only_its_whole_group(root: Path) -> None:
    survived = judge(root, HARMLESS, SUM)

    assert (survived.failure, survived.finder) == (None, None)
    assert (root / "first").exists()


def test_the_tree_is_as_before_when_a_mutant_has_been_judged(root: Path) -> None:
    judge(root, WRONG, SUM)

    assert (root / "thing.py").read_text(encoding="utf-8") == MODULE


def test_a_finder_that_fails_without_a_mutant_proves_nothing(root: Path) -> None:
    assert unharmed(root, LOGS, [verdict(WRONG, ONE), verdict(HARMLESS, SUM)]) is None

    (root / SECOND).write_text("def test_sum():\n    assert False\n", encoding="utf-8")

    assert unharmed(root, LOGS, [verdict(WRONG, ONE), verdict(HARMLESS, SUM)]) == Failure(SUM, "fails")


def test_only_what_the_verdicts_rest_on_runs_without_a_mutant(root: Path) -> None:
    unharmed(root, LOGS, [verdict(WRONG, SUM)])
    assert not (root / "first").exists()

    unharmed(root, LOGS, [verdict(WRONG, SUM), verdict(HARMLESS, SUM, by_finder=False)])
    assert (root / "first").exists()
