import subprocess
import sys
from pathlib import Path

import pytest

from deploy.image import dependencies as script
from deploy.image.dependencies import dependencies

PROJECT = """
[project]
dependencies = ["torch==1"]
[project.optional-dependencies]
otel = ["spans==2"]
dev = ["pytest==3"]
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    file = tmp_path / "pyproject.toml"
    file.write_text(PROJECT)
    return file


@pytest.mark.parametrize(
    ("extras", "printed"),
    [("", "torch==1\n"), ("otel", "torch==1\nspans==2\n"), ("dev,otel", "torch==1\npytest==3\nspans==2\n")],
)
def test_requirements_are_printed_with_those_of_extras(file: Path, extras: str, printed: str) -> None:
    done = subprocess.run([sys.executable, script.__file__, file, extras], check=True, stdout=-1, text=True)

    assert done.stdout == printed


def test_an_extra_that_is_not_there_ends_the_build(file: Path) -> None:
    with pytest.raises(SystemExit, match=r"pyproject\.toml has no extra traces, only otel, dev"):
        dependencies(file, ["otel", "traces"])
