"""Public JSON schemas, from packages that ship them."""

import io
import json
import pickle
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import orjson

PINS = Path(__file__).parent / "pins"


@dataclass(frozen=True, slots=True)
class Case:
    """One schema, and where it is from."""

    source: str
    name: str
    schema: dict[str, object]

    @property
    def text(self) -> str:
        """The schema as JSON."""
        return json.dumps(self.schema, ensure_ascii=False, separators=(",", ":"))


def corpus(packages: Path) -> list[Case]:
    """All that the installed packages ship, by source and name, each schema once."""
    cases = {case.text: case for case in [*_from_schemastore(packages), *_from_jupyterlab(packages)]}
    return sorted(cases.values(), key=lambda case: (case.source, case.name))


def _from_jupyterlab(packages: Path) -> Iterator[Case]:
    """The settings of JupyterLab's plugins."""
    for file in sorted((packages / "jupyterlab" / "schemas").rglob("*.json")):
        yield from _case("JupyterLab", file.stem, file.read_bytes())


def _from_schemastore(packages: Path) -> Iterator[Case]:
    """SchemaStore's catalogue, which the package keeps as answers to requests."""
    with closing(sqlite3.connect(packages / "schemastore" / "cache.sqlite")) as database:
        for key, value in database.execute("SELECT key, value FROM responses ORDER BY key"):
            answer = _Plain(io.BytesIO(value)).load()
            yield from _case("SchemaStore", str(answer.get("url", key)), answer["_content"])


class _Plain(pickle.Unpickler):
    """Reads dictionaries, texts and numbers; whatever else there is stands for nothing and runs nothing."""

    def find_class(self, _module: str, _name: str) -> object:
        return lambda *_arguments, **_options: None


def _case(source: str, name: str, data: bytes) -> Iterator[Case]:
    """A schema that says what kind of thing it describes; catalogues and error pages don't."""
    try:
        schema = orjson.loads(data)
    except orjson.JSONDecodeError:
        return
    if isinstance(schema, dict) and schema.keys() & {"type", "properties", "$ref", "anyOf", "oneOf", "allOf"}:
        yield Case(source, name, schema)
