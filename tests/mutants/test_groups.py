from tests.mutants.faults import MUTANTS
from tests.mutants.groups import GROUP_OF, group_of
from tests.mutants.tree import ROOT


def test_the_tests_of_every_group_are_there() -> None:
    paths = {test.partition("::")[0] for mutant in MUTANTS for test in group_of(mutant).tests}

    assert [path for path in paths if not (ROOT / path).exists()] == []


def test_every_group_of_a_fault_has_a_mutant() -> None:
    assert GROUP_OF.keys() <= {mutant.fault for mutant in MUTANTS}
