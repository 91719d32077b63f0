import ast
from pathlib import Path

import pytest

from tests.mutants.edits import Edit, Mutant, NoLongerApplies
from tests.mutants.faults import MUTANTS

ROOT = Path(__file__).parent.parent.parent
SOURCE = """
def first() -> int:
    return 1


class Thing:
    def first(self) -> int:
        return 1 + 1
"""


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: f"{mutant.fault} {mutant.what}")
def test_every_mutant_still_applies_and_is_code(mutant: Mutant) -> None:
    sources = {edit.module: (ROOT / edit.module).read_text(encoding="utf-8") for edit in mutant.edits}
    changed = dict(sources)
    for edit in mutant.edits:
        changed[edit.module] = edit.applied_to(changed[edit.module])

    for module, source in changed.items():
        if module.endswith(".py"):
            ast.parse(source)
        assert source != sources[module]


def test_every_case_that_the_design_could_suffer_has_a_mutant() -> None:
    cases = (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 21, 22, 23, 24, 25, 26, 27, 28)

    assert {f"E{case}" for case in cases} <= {mutant.fault for mutant in MUTANTS}


def test_an_edit_changes_the_function_that_it_names_and_no_other() -> None:
    changed = Edit("thing.py", "Thing.first", "1 + 1", "2").applied_to(SOURCE)

    assert changed == SOURCE.replace("1 + 1", "2")


def test_an_edit_of_other_code_changes_the_one_place_of_its_text() -> None:
    assert Edit("thing.inc", "first", "1 + 1", "2").applied_to(SOURCE) == SOURCE.replace("1 + 1", "2")
    for function, old in (("first", "return"), ("second", "1 + 1")):
        with pytest.raises(NoLongerApplies, match=function):
            Edit("thing.inc", function, old, "2").applied_to(SOURCE)


@pytest.mark.parametrize(
    ("function", "old"), [("first", "return 2"), ("Thing.first", "1"), ("second", "1"), ("Other.first", "1")]
)
def test_an_edit_that_no_longer_applies_says_so(function: str, old: str) -> None:
    with pytest.raises(NoLongerApplies, match=function):
        Edit("thing.py", function, old, "2").applied_to(SOURCE)
