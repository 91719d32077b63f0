"""What is compiled for one CPU must not be called on another: the linker merges functions that several files have."""

import ast
import subprocess
from pathlib import Path

import pytest

from engine.model import kernels

FOLDER = Path(kernels.__file__).parent
ROOT = FOLDER.parent.parent.parent
FROM_OUTSIDE = {"memcpy", "memmove", "memset"}  # GCC's own; the C library chooses by the CPU


def product_flags() -> list[str]:
    """The compiler's flags, as setup.py has them."""
    tree = ast.parse((ROOT / "setup.py").read_text())
    values = [
        node.value
        for node in tree.body
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and node.targets[0].id == "FLAGS"
    ]
    flags: list[str] = ast.literal_eval(values[0])
    return flags


@pytest.mark.parametrize("level", ["avx2", "avx512", "amx"])
def test_a_level_shares_no_function_and_calls_none(level: str, tmp_path: Path) -> None:
    target = tmp_path / "level.o"
    source = FOLDER / f"level_{level}.cpp"
    subprocess.run(["g++", *product_flags(), "-fPIC", "-c", source, "-o", target], check=True)

    listed = subprocess.run(["nm", "-C", target], check=True, capture_output=True, text=True).stdout
    symbols = {tuple(line[17:].split(" ", 1)) for line in listed.splitlines()}

    assert {name for kind, name in symbols if kind == "U"} <= FROM_OUTSIDE
    assert {name for kind, name in symbols if kind == "T"} == {
        f"tidemark::{level}_kernels()",
        f"tidemark::{level}_recurrences()",
        f"tidemark::{level}_scans()",
    }
    assert {name for kind, name in symbols if kind in "VWu"} == set()
