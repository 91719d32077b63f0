import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
EXTRAS = PROJECT["project"]["optional-dependencies"]
PINS = [*PROJECT["project"]["dependencies"], *EXTRAS["dev"], *EXTRAS["otel"]]


def test_every_package_of_the_tree_is_installed() -> None:
    marks = [mark for top in ("config", "engine", "server") for mark in (ROOT / top).rglob("__init__.py")]

    packages = sorted(".".join(mark.parent.relative_to(ROOT).parts) for mark in marks)

    assert sorted(PROJECT["tool"]["setuptools"]["packages"]) == packages


def test_the_tests_have_every_extra() -> None:
    assert set(EXTRAS["otel"]) <= set(EXTRAS["dev"])


def test_every_dependency_is_pinned() -> None:
    assert [pin for pin in PINS if not re.fullmatch(r"[\w-]+==[\w.]+", pin)] == []


def test_the_constraints_repeat_every_pin_but_torch() -> None:
    pins = {_normal(pin) for pin in PINS if not pin.startswith("torch==")}
    constraints = {_normal(line) for line in (ROOT / "constraints.txt").read_text().splitlines()}

    assert pins - constraints == set()
    assert not any(line.startswith(("torch==", "nvidia", "triton")) for line in constraints)


def _normal(pin: str) -> str:
    return pin.lower().replace("_", "-")


def test_no_committed_file_names_a_package_index() -> None:
    files = [ROOT / name for name in ("pyproject.toml", "constraints.txt", "Makefile", "Dockerfile", ".ci/run")]

    assert [file.name for file in files if re.search(r"index-url |://[^\s]*simple", file.read_text())] == []
