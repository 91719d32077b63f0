from pathlib import Path

import pytest

from tests.mutants import begun
from tests.mutants.trial import Failure, NothingRan, first_failure

TESTS = """
import os
import signal

import pytest


def test_passes():
    pass


@pytest.mark.parametrize("word", ["a b", "a - b"])
def test_fails(word):
    assert word == "a b"


def test_fails_too():
    assert False


def test_dies():
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A tree with tests that pass, fail and die."""
    package = tmp_path / "tests" / "mutants"
    package.mkdir(parents=True)
    for folder in (package, package.parent):
        (folder / "__init__.py").touch()
    (package / "begun.py").write_text(Path(begun.__file__).read_text(encoding="utf-8"), encoding="utf-8")
    (tmp_path / "tests" / "test_thing.py").write_text(TESTS, encoding="utf-8")
    (tmp_path / "tests" / "test_unread.py").write_text("import nothing_of_the_kind", encoding="utf-8")
    return tmp_path


def test_the_first_test_that_fails_is_named_whatever_its_parameters(root: Path) -> None:
    assert first_failure(root, ["tests/test_thing.py"]) == Failure("tests/test_thing.py::test_fails[a - b]", "fails")


def test_nothing_fails_where_all_tests_pass(root: Path) -> None:
    assert first_failure(root, ["tests/test_thing.py::test_passes", "tests/test_thing.py::test_fails[a b]"]) is None


def test_a_test_of_which_its_process_dies_is_named(root: Path) -> None:
    failure = first_failure(root, ["-k", "passes or dies", "tests/test_thing.py"])

    assert failure == Failure("tests/test_thing.py::test_dies", "dies of SIGKILL")


def test_what_never_ends_fails(root: Path) -> None:
    failure = first_failure(root, ["tests/test_thing.py"], limit_seconds=0.001)

    assert failure == Failure(None, "does not end within 0.001 seconds")


def test_tests_that_cannot_be_read_fail_and_none_had_begun(root: Path) -> None:
    first_failure(root, ["tests/test_thing.py"])

    assert first_failure(root, ["tests/test_unread.py"]) == Failure(None, "fails")


@pytest.mark.parametrize("asked", ["tests/test_thing.py::test_gone", "-k gone tests/test_thing.py"])
def test_tests_that_are_not_there_have_not_failed(root: Path, asked: str) -> None:
    with pytest.raises(NothingRan):
        first_failure(root, asked.split())
