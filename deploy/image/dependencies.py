"""Prints what a pyproject.toml depends on, one requirement a line: `python dependencies.py FILE`."""

import sys
import tomllib
from pathlib import Path

if __name__ == "__main__":
    project = tomllib.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))["project"]
    sys.stdout.writelines(f"{requirement}\n" for requirement in project["dependencies"])
