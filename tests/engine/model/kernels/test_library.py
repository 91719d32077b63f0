import ctypes
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from engine.model.kernels import library as module
from engine.model.kernels.library import NAME, library
from engine.model.kernels.native import MIRRORED, Library
from tests.engine.model.kernels.machine import the_library

CALLS = ("open", "close", "run", "answer", "convolve", "select", "apply_delta_rule", "panel_bytes", "pack")
SIZES = [ctypes.sizeof(structure) for structure in MIRRORED]


def stub(folder: Path, *, sizes: list[int], calls: tuple[str, ...] = CALLS) -> None:
    """A library with those calls, which supports no level."""
    numbers = ", ".join(map(str, sizes))
    source = (
        f"void tidemark_sizes(long *out) {{ long all[] = {{{numbers}}};"
        f" for (int i = 0; i < {len(sizes)}; ++i) out[i] = all[i]; }}\n"
        "int tidemark_supports(int level) { return 0 * level; }\n"
    )
    (folder / "stub.c").write_text(source + "".join(f"void tidemark_{call}(void) {{}}\n" for call in calls))
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", folder / NAME, folder / "stub.c"], check=True)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the library is looked for."""
    monkeypatch.setattr(module, "__file__", str(tmp_path / "library.py"))
    return tmp_path


def look(times: int = 1) -> list[Library | None]:
    library.cache_clear()
    found = [library() for _ in range(times)]
    library.cache_clear()
    return found


def test_the_library_that_was_built_is_found_once() -> None:
    assert library() is the_library()
    assert the_library().path.name == NAME
    assert list(the_library().levels) == sorted(the_library().levels)


@pytest.mark.parametrize(
    ("prepare", "reason"),
    [
        (lambda _: None, r"it was not built: that takes g\+\+ while"),
        (lambda folder: (folder / NAME).write_text("no library"), "file too short"),
        (lambda folder: stub(folder, sizes=[*SIZES[:-1], 8]), r"has structures of .* bytes, not .*: build it again"),
        (lambda folder: stub(folder, sizes=SIZES, calls=CALLS[:-1]), "undefined symbol: tidemark_pack"),
        (lambda folder: stub(folder, sizes=SIZES), "no AVX2 here"),
    ],
    ids=["missing", "broken", "stale", "older", "other-cpu"],
)
def test_a_library_that_is_not_to_be_had_is_one_warning(
    folder: Path, caplog: pytest.LogCaptureFixture, prepare: Callable[[Path], None], reason: str
) -> None:
    prepare(folder)

    assert look(times=3) == [None] * 3

    (record,) = caplog.records
    assert record.levelname == "WARNING"
    assert "the native kernels are not used, and the model step is several times slower" in record.getMessage()
    assert re.search(reason, record.getMessage())
