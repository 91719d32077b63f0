import pytest

from deploy.image.engine import Refused
from deploy.image.parts import PACKAGES, PARTS, parts
from tests.deploy.image.fakes import FakeContainer

SIZES = {"/": 1000, PACKAGES: 800, "/opt/default": 90, f"{PACKAGES}/torch": 500, f"{PACKAGES}/server": 4}
LEFT_OUT = "--exclude=/models --exclude=/cache"


def container(sizes: dict[str, int]) -> FakeContainer:
    asked = f"du --summarize --bytes --one-file-system {LEFT_OUT} "
    zero = {path: 0 for paths in PARTS.values() for path in paths}
    return FakeContainer({f"{asked}{path}": (0, f"{size}000000\t{path}", "") for path, size in (zero | sizes).items()})


def test_the_parts_add_up_to_the_whole() -> None:
    found = dict(parts(container(SIZES)))

    whole = found.pop("all")

    assert whole == 1000
    assert sum(found.values()) == whole
    assert found["torch"] == 500
    assert found["the base"] == 110
    assert found["the other packages"] == 296


def test_a_part_that_is_not_there_is_told() -> None:
    with pytest.raises(Refused, match=r"/ could not be measured: no such"):
        list(parts(FakeContainer({"du": (1, "", "no such")})))
