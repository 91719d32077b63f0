import sys
from pathlib import Path

import pytest

from deploy.image import warm


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """One of three modules, of which one wants what is not there."""
    folder = tmp_path / "warmed"
    folder.mkdir()
    for name, text in {"__init__": "", "__main__": "1 / 0", "extra": "import not_there.sdk", "plain": ""}.items():
        (folder / f"{name}.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    return folder


def test_all_modules_are_loaded_but_those_that_run_or_want_an_extra(package: Path) -> None:
    warm.load("warmed")

    assert "warmed.plain" in sys.modules
    assert not {"warmed.extra", "warmed.__main__"} & set(sys.modules)


def test_a_module_of_ours_that_is_missing_is_told() -> None:
    with pytest.raises(ModuleNotFoundError, match=r"server\.not_there"):
        warm.load_if_whole("server.not_there")
