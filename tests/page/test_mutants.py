"""That the page's mutants are what they were meant to be; what finds them takes Chromium (`make mutants-page`)."""

import pytest

from tests.mutants.tree import ROOT
from tests.page.mutants import MUTANTS, PageMutant


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.what)
def test_every_mutant_still_applies_and_its_test_is_there(mutant: PageMutant) -> None:
    source = (ROOT / mutant.edit.module).read_text(encoding="utf-8")
    file, _, name = mutant.path.partition("::")

    assert mutant.edit.applied_to(source) != source
    assert f"def {name.partition('[')[0]}(" in (ROOT / file).read_text(encoding="utf-8")
