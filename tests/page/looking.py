"""Pages under test, and what they complain of."""

import time
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page

PATIENCE_MILLISECONDS = 60_000  # far beyond what anything here takes: reached only when something hangs
REPORT_VIOLATIONS = """
addEventListener("securitypolicyviolation", (event) => console.error(`policy: ${event.violatedDirective}`));
"""
# What Chromium says of any answer that is no 200 and any server that is gone, and of a test that reads the map.
EXPECTED = ("Failed to load resource", "Canvas2D: Multiple readback")


class Looks:
    """Opens pages of one browser and keeps their complaints: errors, warnings and what the policy forbids."""

    def __init__(self, browser: "Browser") -> None:
        self._browser = browser
        self._contexts: list[BrowserContext] = []
        self.complaints: list[str] = []

    def open(
        self,
        url: str,
        *,
        width: int = 1280,
        height: int = 900,
        scheme: Literal["light", "dark"] = "light",
        motion: Literal["reduce", "no-preference"] = "no-preference",
        live: bool = True,
    ) -> "Page":
        """A page in a context of its own; `live`: wait until it shows data."""
        context = self._browser.new_context(
            viewport={"width": width, "height": height}, color_scheme=scheme, reduced_motion=motion
        )
        self._contexts.append(context)
        context.set_default_timeout(PATIENCE_MILLISECONDS)
        context.add_init_script(REPORT_VIOLATIONS)
        page = context.new_page()
        page.on("console", self._hear)
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.goto(url)
        if live:
            page.wait_for_selector('#link[data-state="live"]')
        return page

    def close(self) -> None:
        """Close every page."""
        for context in self._contexts:
            context.close()

    def _hear(self, message: "ConsoleMessage") -> None:
        if message.type in ("error", "warning") and not message.text.startswith(EXPECTED):
            self.complaints.append(message.text)


def until(page: "Page", expression: str) -> None:
    """Wait until an expression holds. Playwright's own way to wait needs `eval`, which the page's policy forbids."""
    give_up = time.monotonic() + PATIENCE_MILLISECONDS / 1000
    while not page.evaluate(expression):
        assert time.monotonic() < give_up, expression
        page.wait_for_timeout(50)
