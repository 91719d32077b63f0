import pytest

from config.catalogue import SETTINGS, Kind, size_text
from config.settings import Settings


def test_every_setting_of_the_tree_is_known_by_its_dotted_name() -> None:
    names = {
        f"{section}.{field}"
        for section, info in Settings.model_fields.items()
        for field in info.annotation.model_fields  # type: ignore[union-attr]  # every section is a model
    }

    assert set(SETTINGS) == names


def test_every_setting_says_what_it_means_in_one_line() -> None:
    for setting in SETTINGS.values():
        assert 10 <= len(setting.meaning) <= 120, setting.name
        assert "\n" not in setting.meaning
        assert "%" not in setting.meaning, "argparse would read it as a format"


@pytest.mark.parametrize(
    ("name", "allowed"),
    [
        ("server.port", "an integer from 0 to 65535"),
        ("model.max_context", "an integer of at least 2 or auto"),
        ("engine.stall_seconds", "a finite number above 0"),
        ("server.drain_seconds", "a finite number of at least 0"),
        ("cache.memory_bytes", "a size such as 512MiB of at least 1MiB or auto"),
        ("cache.dtype", "one of auto, float32, bfloat16, int8"),
        ("cache.prefix_caching", "true or false"),
        ("server.api_keys", "a list of keys of visible ASCII characters, without spaces"),
        ("model.chat_template", "a non-empty text or auto"),
    ],
)
def test_what_is_allowed_is_read_off_the_tree(name: str, allowed: str) -> None:
    assert SETTINGS[name].allowed == allowed


def test_every_number_is_asked_to_be_finite() -> None:
    numbers = {setting.name: setting.allowed for setting in SETTINGS.values() if setting.kind is Kind.NUMBER}

    assert len(numbers) >= 5
    assert all(allowed.startswith("a finite number") for allowed in numbers.values()), numbers


def test_only_the_keys_are_secret() -> None:
    assert [setting.name for setting in SETTINGS.values() if setting.secret] == ["server.api_keys"]


def test_only_the_model_must_be_given() -> None:
    assert [setting.name for setting in SETTINGS.values() if setting.required] == ["model.path"]


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("server.port", "80", 80),
        ("server.port", "eighty", "eighty"),
        ("server.drain_seconds", "1.5", 1.5),
        ("cache.prefix_caching", "False", False),
        ("cache.prefix_caching", "1", True),
        ("cache.prefix_caching", "maybe", "maybe"),
        ("model.aliases", "a,b", ("a", "b")),
        ("model.aliases", "none", ()),
        ("model.aliases", "", ("",)),
        ("cache.memory_bytes", "2GiB", "2GiB"),
        ("model.path", "a,b", "a,b"),
    ],
)
def test_text_is_read_by_the_kind_of_the_setting(name: str, text: str, value: object) -> None:
    assert SETTINGS[name].parse(text) == value


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("server.max_body_bytes", 32 << 20, "32MiB"),
        ("cache.num_blocks", None, "auto"),
        ("cache.prefix_caching", True, "true"),
        ("model.aliases", (), "none"),
        ("server.cors_origins", ("a", "b"), "a,b"),
        ("server.port", 8000, "8000"),
    ],
)
def test_a_value_is_spelled_as_people_write_it(name: str, value: object, text: str) -> None:
    assert SETTINGS[name].spell(value) == text


@pytest.mark.parametrize(
    ("num_bytes", "text"),
    [(0, "0B"), (1023, "1023B"), (1024, "1KiB"), (1 << 20, "1MiB"), (3 << 29, "1536MiB"), (2 << 30, "2GiB")],
)
def test_a_size_is_spelled_exactly(num_bytes: int, text: str) -> None:
    assert size_text(num_bytes) == text
