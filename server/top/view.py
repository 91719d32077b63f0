"""View: what a person chose by keys, and what is drawn for it."""

from dataclasses import replace

from rich.console import RenderableType

from server.top.keys import keys_in
from server.top.pages import BACK, Asks, Page, Requests
from server.top.parts import Look
from server.top.story import Frame


class View:
    """The choices of whoever looks. While it is paused the frame of that moment stays."""

    def __init__(self, asks: Asks) -> None:
        self._requests = Requests(asks)
        self._page: Page = self._requests
        self._is_paused = False
        self._seen: tuple[Frame, Look] | None = None

    def press(self, pressed: str) -> bool:
        """Take what was pressed; whether the view goes on."""
        for key in keys_in(pressed):
            if key in ("q", "Q"):
                return False
            if key in ("p", "P", "space"):
                self._is_paused = not self._is_paused
            elif key in BACK and self._page is not self._requests:
                self._go(self._requests)
            elif self._seen is not None:  # keys are about what is seen
                self._go(self._page.press(key, *self._seen))
        return True

    def _go(self, page: Page) -> None:
        if page is not self._page:
            self._page.close()
            self._page = page

    def draw(self, frame: Frame, *, width: int, height: int) -> RenderableType:
        """The frame as it is looked at."""
        kept = replace(self._seen[0], notice=frame.notice) if self._is_paused and self._seen is not None else frame
        look = Look(width, height, is_paused=self._is_paused, has_keys=True)
        self._seen = kept, look
        return self._page.draw(kept, look)
