"""Prints what a pyproject.toml depends on, one requirement a line: `python dependencies.py FILE [EXTRA,EXTRA]`."""

import sys
import tomllib
from collections.abc import Sequence
from pathlib import Path


def dependencies(file: Path, extras: Sequence[str] = ()) -> list[str]:
    """The requirements of a project and of those of its extras; ends the program where it has no such extra."""
    project = tomllib.loads(file.read_text(encoding="utf-8"))["project"]
    optional: dict[str, list[str]] = project["optional-dependencies"]
    unknown = [extra for extra in extras if extra not in optional]
    if unknown:
        sys.exit(f"{file.name} has no extra {', '.join(unknown)}, only {', '.join(optional)}")
    return [*project["dependencies"], *(requirement for extra in extras for requirement in optional[extra])]


if __name__ == "__main__":
    named = [extra for argument in sys.argv[2:] for extra in argument.split(",") if extra]
    sys.stdout.writelines(f"{requirement}\n" for requirement in dependencies(Path(sys.argv[1]), named))
