import os
from pathlib import Path

from tests.sdks.environment import MARK, Environment


def environment_of(folder: Path, pins: str) -> Environment:
    (folder / "pins").mkdir(exist_ok=True)
    (folder / "pins" / "none.txt").write_text(pins)
    return Environment("none", home=folder / "envs", pins=folder / "pins")


def test_an_environment_is_made_once_and_again_when_its_pins_change(tmp_path: Path) -> None:
    environment = environment_of(tmp_path, "")
    environment.make()
    made = os.stat(environment.folder / MARK).st_mtime_ns

    environment.make()
    kept = os.stat(environment.folder / MARK).st_mtime_ns
    environment_of(tmp_path, "\n").make()

    assert environment.python.is_file()
    assert kept == made
    assert os.stat(environment.folder / MARK).st_mtime_ns > made


def test_a_version_is_that_of_the_pins(tmp_path: Path) -> None:
    assert environment_of(tmp_path, "a==1.0\nb==2.0").version("b") == "2.0"


def test_a_node_package_has_the_version_of_the_lock_file(tmp_path: Path) -> None:
    environment = environment_of(tmp_path, "a==1.0")
    (tmp_path / "pins" / "none").mkdir()
    (tmp_path / "pins" / "none" / "package-lock.json").write_text("{}")
    (tmp_path / "pins" / "none" / "package.json").write_text('{"dependencies": {"ai": "7.0.0"}}')

    assert environment.version("ai") == "7.0.0"
