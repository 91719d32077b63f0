import json
from pathlib import Path

from tests.mutants.faults import MUTANTS
from tests.mutants.finders import read_finders, remember_finders
from tests.mutants.tree import ROOT


def test_mutants_have_names_of_their_own() -> None:
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS)


def test_finders_are_tests_of_files_that_are_there() -> None:
    files = {finder.partition("::")[0] for finder in read_finders().values()}

    assert [file for file in files if not (ROOT / file).is_file()] == []


def test_what_was_found_is_remembered_in_the_order_of_the_faults(tmp_path: Path) -> None:
    file, (first, second, third) = tmp_path / "finders.json", [mutant.name for mutant in MUTANTS[:3]]
    file.write_text(json.dumps({third: "old", "a fault that is gone": "old", second: "old"}), encoding="utf-8")

    remember_finders({third: "new", first: "new"}, file)

    assert list(read_finders(file).items()) == [(first, "new"), (second, "old"), (third, "new")]
