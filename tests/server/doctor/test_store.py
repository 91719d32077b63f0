import os
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from server.doctor.store import StoreState, look_at_file
from server.store import Store, StoreFailed


def opened(path: Path) -> Store:
    return Store(str(path), seconds=60, max_bytes=1000)


def test_a_file_that_is_not_there_yet_is_not_made(tmp_path: Path) -> None:
    assert look_at_file(str(tmp_path / "kept")) == StoreState()
    assert list(tmp_path.iterdir()) == []


def test_a_store_that_was_closed_is_to_be_had_and_stays_as_it_is(tmp_path: Path) -> None:
    opened(tmp_path / "kept").close()
    before = (tmp_path / "kept").read_bytes()

    assert look_at_file(str(tmp_path / "kept")) == StoreState()
    assert [file.name for file in tmp_path.iterdir()] == ["kept"]
    assert (tmp_path / "kept").read_bytes() == before


def test_a_store_that_a_server_has_open_is_held(tmp_path: Path) -> None:
    store = opened(tmp_path / "kept")

    assert look_at_file(str(tmp_path / "kept")) == StoreState("database is locked", held=True)
    store.close()


@pytest.mark.parametrize("name", ["nosuch/kept", "text", "."])
def test_what_serving_could_not_open_is_a_fault(tmp_path: Path, name: str) -> None:
    (tmp_path / "text").write_text("no database, but some text that is long enough for its head" * 40)

    assert look_at_file(str(tmp_path / name)).fault
    with pytest.raises(StoreFailed):
        opened(tmp_path / name)


@pytest.mark.parametrize("name", ["kept", "new"])
def test_what_can_not_be_written_to_is_a_fault(tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with closing(sqlite3.connect(tmp_path / "kept")) as database:
        database.execute("CREATE TABLE some (id TEXT)")
    monkeypatch.setattr(os, "access", lambda _path, _mode: False)  # root may write whatever its mode says

    assert "can't be written to" in (look_at_file(str(tmp_path / name)).fault or "")
