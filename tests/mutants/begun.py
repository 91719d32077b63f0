"""A plugin of pytest: tells which test was begun last, even where its process dies of it."""

from pathlib import Path

BEGUN = Path(__file__).with_name("begun.txt")


def pytest_runtest_logstart(nodeid: str) -> None:
    """What pytest calls before each test."""
    BEGUN.write_text(nodeid, encoding="utf-8")
