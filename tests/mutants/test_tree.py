from pathlib import Path

import pytest

from tests.mutants import tree
from tests.mutants.edits import Edit, Mutant
from tests.mutants.tree import LIBRARY, ROOT, Copies, harmed

KERNEL = "engine/model/kernels/thing.inc"
MODULE = "engine/thing.py"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A tree of a module, a kernel and a library."""
    for name, source in ((MODULE, "def one():\n    return 1\n"), (KERNEL, "one 1"), (str(LIBRARY), "built")):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(source, encoding="utf-8")
    return tmp_path


@pytest.fixture
def built(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The trees whose library was built; what is built holds what the kernel says then."""
    roots: list[Path] = []

    def build(root: Path) -> None:
        roots.append(root)
        (root / LIBRARY).write_bytes((root / KERNEL).read_bytes() if (root / KERNEL).exists() else b"cheap")

    monkeypatch.setattr(tree, "build_library", build)
    return roots


def test_a_tree_is_harmed_no_longer_than_asked(root: Path, built: list[Path]) -> None:
    with harmed(root, Mutant("law 1", "one is wrong", (Edit(MODULE, "one", "1", "0"),))):
        assert "return 0" in (root / MODULE).read_text(encoding="utf-8")

    assert "return 1" in (root / MODULE).read_text(encoding="utf-8")
    assert built == []


def test_a_compiled_mutant_is_in_the_library_as_long_as_in_its_source(root: Path, built: list[Path]) -> None:
    with harmed(root, Mutant("native", "one is wrong", (Edit(KERNEL, "one", "1", "0"),))):
        assert (root / LIBRARY).read_text(encoding="utf-8") == "one 0"

    assert (root / KERNEL).read_text(encoding="utf-8") == "one 1"
    assert (root / LIBRARY).read_text(encoding="utf-8") == "built"
    assert built == [root]


def test_copies_build_their_library_cheaply_and_once(tmp_path: Path, built: list[Path]) -> None:
    copies = Copies(tmp_path, 2, compiled=True)

    with copies.lent() as first, copies.lent() as second:
        assert first != second
        assert built == [first]
        assert (second / LIBRARY).read_text(encoding="utf-8") == "cheap"
    setups = [(root / "setup.py").read_text(encoding="utf-8") for root in (ROOT, first)]
    assert [setup.count('"-Og"') for setup in setups] == [0, 1]
    assert [setup.count('"-O3"') for setup in setups] == [1, 0]


def test_without_compiled_mutants_copies_have_the_library_that_is_there(tmp_path: Path, built: list[Path]) -> None:
    with Copies(tmp_path, 1, compiled=False).lent() as root:
        assert built == []
        assert (root / LIBRARY).read_bytes() == (ROOT / LIBRARY).read_bytes()
