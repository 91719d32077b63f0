"""The test that found each mutant last time. It only saves time to know them: see judge.py."""

import json
from collections.abc import Mapping
from pathlib import Path

from tests.mutants.faults import MUTANTS

FILE = Path(__file__).with_name("finders.json")


def read_finders(file: Path = FILE) -> dict[str, str]:
    """The finders by the names of their mutants."""
    finders: dict[str, str] = json.loads(file.read_text(encoding="utf-8"))
    return finders


def remember_finders(found: Mapping[str, str], file: Path = FILE) -> None:
    """Add to the file what was found now, in the order of the faults, and drop mutants that are gone."""
    finders = {**read_finders(file), **found}
    kept = {mutant.name: finders[mutant.name] for mutant in MUTANTS if mutant.name in finders}
    file.write_text(json.dumps(kept, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
