"""Parts: what every view of `tidemark top` is drawn with."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from enum import Enum

from rich.text import Text

from server.top.bars import MARKS, Piece
from server.top.sight import Sequence
from server.top.story import Frame
from server.top.words import count_told, span_told

LABEL_WIDTH = 9
STYLES = {
    "allocated": "green",
    "shared": "cyan",
    "cached": "blue",
    "free": "dim",
    "computed": "green",
    "in flight": "bold yellow",
    "accepted": "cyan",
    "draft": "magenta",
    "held back": "bold red",
    "": "dim",
}


class Order(Enum):
    """How requests are sorted."""

    AGE = "age"
    LENGTH = "length"
    STATE = "state"


_KEYS: dict[Order, Callable[[Sequence], tuple[object, ...]]] = {
    Order.AGE: lambda sequence: (sequence.arrived, sequence.id),
    Order.LENGTH: lambda sequence: (-sequence.accepted, sequence.id),
    Order.STATE: lambda sequence: (sequence.state, sequence.arrived, sequence.id),
}


@dataclass(frozen=True, slots=True)
class Look:
    """How much room there is, and what the person chose; `height` None is as many lines as it takes."""

    width: int
    height: int | None = None
    order: Order = Order.AGE
    chosen: str | None = None  # a sequence
    is_paused: bool = False
    has_keys: bool = False


def ordered(sequences: Iterable[Sequence], order: Order) -> list[Sequence]:
    """As they are listed."""
    return sorted(sequences, key=_KEYS[order])


def fitted(line: Text) -> Text:
    """The line, cut where the terminal ends."""
    line.no_wrap, line.overflow = True, "ellipsis"
    return line


def head(frame: Frame, look: Look) -> Iterator[Text]:
    """Which server it is, and what is wrong with it."""
    sight = frame.sight
    state = Text(sight.server, style="green" if sight.server == "ready" else "bold yellow")
    parts = [Text(frame.info.model, style="bold"), Text(frame.info.architecture), state]
    parts += [Text(f"up {span_told(sight.uptime + frame.age)}"), Text(frame.url, style="dim")]
    yield Text("  ").join(parts)
    if frame.notice:
        yield Text(frame.notice, style="bold red")
    if look.is_paused:
        yield Text("paused; p goes on", style="bold yellow")


def line_of(label: str, *parts: Text | str) -> Text:
    """A line with its name, and parts of which empty ones are left out."""
    told = [part if isinstance(part, Text) else Text(part) for part in parts if part]
    return Text.assemble((f"{label:{LABEL_WIDTH}}", "bold"), Text("  ").join(told))


def bar_of(pieces: Iterable[Piece]) -> Text:
    """A bar in its colours."""
    return Text.assemble(*((piece.text, STYLES[piece.means]) for piece in pieces))


def legend(scale: int) -> Text:
    """What a bar of marks is drawn with."""
    told = [Text.assemble((MARKS[means], STYLES[means]), f" {means}") for means in MARKS if means]
    return fitted(Text("  ").join([Text(f"positions 0 to {count_told(scale)}", style="dim"), *told]))


def keys_line(look: Look, told: str) -> Iterator[Text]:
    """The keys that do something now; those of every view come first."""
    if look.has_keys:
        pause = "goes on" if look.is_paused else "pauses"
        yield fitted(Text(f"q leaves  p {pause}  {told}", style="dim"))
