"""Copies of the tree, in which faults are put and tests run."""

import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from queue import SimpleQueue

from tests.mutants.edits import Mutant

ROOT = Path(__file__).parent.parent.parent
FOLDERS = ("engine", "server", "config", "tests")
FILES = ("pyproject.toml", "setup.py")
LIBRARY = Path("engine/model/kernels/libtidemark.so")
LEVEL, CHEAP_LEVEL = '"-O3"', '"-Og"'  # a mutant's library is built once, for a few tests


def copy_tree(target: Path) -> Path:
    """A copy of what the tests need, which builds its library cheaply."""
    for name in FOLDERS:
        shutil.copytree(ROOT / name, target / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in FILES:
        shutil.copy(ROOT / name, target)
    setup = (target / "setup.py").read_text(encoding="utf-8")
    assert setup.count(LEVEL) == 1
    (target / "setup.py").write_text(setup.replace(LEVEL, CHEAP_LEVEL), encoding="utf-8")
    return target


def build_library(root: Path) -> None:
    """Compile the native library of the tree at `root`."""
    command = [sys.executable, "setup.py", "-q", "build_ext", "--inplace", "--force"]
    subprocess.run(command, cwd=root, capture_output=True, check=True)


class Copies:
    """Several copies of the tree, each lent to one user at a time.

    Where mutants are compiled, the copies have a library without a mutant that is built like theirs.
    """

    def __init__(self, folder: Path, count: int, *, compiled: bool) -> None:
        self._free: SimpleQueue[Path] = SimpleQueue()
        roots = [copy_tree(folder / str(number)) for number in range(count)]
        if compiled:
            build_library(roots[0])
        for root in roots:
            if compiled and root != roots[0]:
                shutil.copy(roots[0] / LIBRARY, root / LIBRARY)
            self._free.put(root)

    @contextmanager
    def lent(self) -> Iterator[Path]:
        """The root of a copy that nobody else uses."""
        root = self._free.get()
        try:
            yield root
        finally:
            self._free.put(root)


@contextmanager
def harmed(root: Path, mutant: Mutant) -> Iterator[None]:
    """The tree at `root` with the mutant in it."""
    library = (root / LIBRARY).read_bytes() if mutant.compiled else None
    before = mutant.apply(root)
    try:
        if mutant.compiled:
            build_library(root)
        yield
    finally:
        for path, source in before.items():
            path.write_text(source, encoding="utf-8")
        if library is not None:
            (root / LIBRARY).write_bytes(library)
