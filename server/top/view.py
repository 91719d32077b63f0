"""View: what a person chose by keys, and what is drawn for it."""

from rich.console import RenderableType

from server.top.draw import Look, Order, draw
from server.top.story import Frame

_ORDERS = list(Order)


class View:
    """The choices of whoever looks. While it is paused the frame of that moment stays."""

    def __init__(self) -> None:
        self._order = Order.AGE
        self._is_paused = False
        self._kept: Frame | None = None

    def press(self, keys: str) -> bool:
        """Take what was pressed; whether the view goes on."""
        for key in keys:
            if key in "qQ":
                return False
            if key in "pP ":
                self._is_paused = not self._is_paused
            elif key in "sS":
                self._order = _ORDERS[(_ORDERS.index(self._order) + 1) % len(_ORDERS)]
        return True

    def draw(self, frame: Frame, *, width: int, height: int) -> RenderableType:
        """The frame as it is looked at."""
        self._kept = self._kept if self._is_paused and self._kept is not None else frame
        look = Look(width, height, order=self._order, is_paused=self._is_paused, has_keys=True)
        return draw(self._kept, look)
