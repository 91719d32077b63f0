import pickle
import sqlite3
from pathlib import Path

import pytest

from benchmarks.table import put_between
from tests.schemas.__main__ import MARK, PAGE, some
from tests.schemas.corpus import Case, corpus


class Evil:
    """Unpickled by the usual means it would do something."""

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return exec, ("raise AssertionError('it ran')",)


@pytest.fixture
def packages(tmp_path: Path) -> Path:
    (tmp_path / "jupyterlab" / "schemas" / "plugin").mkdir(parents=True)
    (tmp_path / "jupyterlab" / "schemas" / "plugin" / "b.json").write_text('{"type": "object"}')
    (tmp_path / "schemastore").mkdir()
    with sqlite3.connect(tmp_path / "schemastore" / "cache.sqlite") as database:
        database.execute("CREATE TABLE responses (key TEXT PRIMARY KEY, value BLOB)")
        for key, content in [("a", b'{"$ref": "#"}'), ("b", b"no JSON"), ("c", b'{"version": 1}'), ("d", b"[]")]:
            value = pickle.dumps({"_content": content, "url": f"schema {key}", "cookies": Evil()})
            database.execute("INSERT INTO responses VALUES (?, ?)", (key, value))
    database.close()
    return tmp_path


def test_the_corpus_has_each_schema_once_and_runs_nothing_of_what_it_reads(packages: Path) -> None:
    (packages / "jupyterlab" / "schemas" / "plugin" / "again.json").write_text('{"type":"object"}')

    cases = corpus(packages)

    assert [(case.source, case.text) for case in cases] == [
        ("JupyterLab", '{"type":"object"}'),
        ("SchemaStore", '{"$ref":"#"}'),
    ]


def test_some_are_taken_evenly_out_of_all() -> None:
    cases = [Case("a", str(number), {}) for number in range(10)]

    assert [case.name for case in some(cases, 4)] == ["0", "2", "5", "7"]
    assert some(cases, None) == some(cases, 99) == cases


def test_the_page_has_a_place_for_the_table() -> None:
    assert f"<!-- {MARK}:begin -->\nnew\n<!-- {MARK}:end -->" in put_between(PAGE.read_text(), MARK, "new")
