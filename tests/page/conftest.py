"""Chromium, driven by Playwright: `make test-page`. The names of the files here keep them out of `make test`."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import httpx
import pytest

from tests.http.processes import ServerProcess
from tests.page.looking import Looks

if TYPE_CHECKING:
    from playwright.sync_api import Browser

NAMES = ("chromium", "chromium-browser", "google-chrome")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--chromium", default="", help="the browser to drive; by default one of " + ", ".join(NAMES))


@pytest.fixture(scope="session")
def chromium(pytestconfig: pytest.Config) -> Path:
    """The browser's program."""
    given = pytestconfig.getoption("--chromium")
    found = given or next(filter(None, map(shutil.which, NAMES)), None)
    if not found:
        pytest.fail("no Chromium: install Debian's package `chromium`, or give CHROMIUM=/path/to/it")
    return Path(found)


@pytest.fixture(scope="session")
def browser(chromium: Path) -> Iterator["Browser"]:
    from playwright.sync_api import sync_playwright  # noqa: PLC0415 - `make test` reads this file too, without it

    with sync_playwright() as playwright:
        # Without its sandbox, which root and most containers have no right to; it sees nothing but these servers.
        yield playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])


@pytest.fixture
def looks(browser: "Browser") -> Iterator[Looks]:
    """Opens pages, and fails at the end if one complained."""
    looks = Looks(browser)
    yield looks
    looks.close()
    assert looks.complaints == []


@pytest.fixture(scope="session")
def served(default_model: Path) -> Iterator[httpx.Client]:
    """A server of the default model, with a cache that can be looked over."""
    flags = ("--port", "0", "--num-blocks", "600")
    with ServerProcess("server", "serve", str(default_model), *flags) as server, server.ready_client() as client:
        yield client
