from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.deploy.claim import Claim, tell


def claims() -> Iterator[Claim]:
    yield Claim.over("all are there", ["a", "b"], lambda one: one not in "ab")
    yield Claim("a tool is here", 0)


def failing() -> Iterator[Claim]:
    yield Claim.over("all are there", ["a", "b", "c"], lambda one: one != "a")


def test_what_held_is_put_into_the_page(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("<!-- m:begin -->\n<!-- m:end -->\n")

    code = tell(claims, page=page, mark="m")

    assert code == 0
    assert page.read_text().splitlines()[3:5] == ["| all are there | 2 | held |", "| a tool is here | 0 | not tried |"]


def test_what_did_not_hold_is_told_with_its_cases(capsys: pytest.CaptureFixture[str]) -> None:
    code = tell(failing, page=None, mark="m")

    assert code == 1
    assert capsys.readouterr().err == "all are there: b; c\n"
