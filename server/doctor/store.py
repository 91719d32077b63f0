"""Store: looks at the file that responses would be kept in, and changes nothing of it."""

import os
import sqlite3
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class StoreState:
    """`fault` is why responses can't be kept there; `held`: another process has it open."""

    fault: str | None = None
    held: bool = False


def look_at_file(path: str) -> StoreState:
    """Try to read a file that is there; one that is not would be made in its folder."""
    file = Path(path).absolute()
    if not file.exists():
        if not file.parent.is_dir():
            return StoreState(f"there is no folder {file.parent}")
        return StoreState(None if _writable(file.parent) else f"the folder {file.parent} can't be written to")
    if not _writable(file):
        return StoreState("it can't be written to")
    try:
        with closing(sqlite3.connect(f"{file.as_uri()}?mode=rw", uri=True, timeout=0)) as database:
            database.execute("SELECT count(*) FROM sqlite_master")
    except sqlite3.Error as error:
        return StoreState(str(error), held=getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_BUSY)
    return StoreState()


def _writable(path: Path) -> bool:
    return os.access(path, os.W_OK)
