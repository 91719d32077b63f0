import re
import tomllib
from importlib.resources import files

from config.catalogue import SETTINGS
from config.load import load
from config.settings import ModelSettings, Settings

DEFAULT_FILE = files("config") / "default.toml"


def test_the_file_holds_the_defaults() -> None:
    loaded = load(["m", "--config", str(DEFAULT_FILE)], {})

    assert loaded.settings == Settings(model=ModelSettings(path="m"))


def test_the_file_names_every_setting_in_the_order_of_the_tree() -> None:
    tables = tomllib.loads(re.sub("^# (path = )", r"\1", DEFAULT_FILE.read_text(), flags=re.MULTILINE))

    names = [f"{section}.{field}" for section, fields in tables.items() for field in fields]

    assert names == list(SETTINGS)
