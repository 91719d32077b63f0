"""Draw: one frame as what rich renders; nothing here reads or waits."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Literal

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from server.top.bars import MARKS, STATES, Piece, marks_bar, pool_bar, scale_of
from server.top.sight import Drafts, Held, Pool, Rejection, Sequence
from server.top.story import Frame
from server.top.words import NOTHING, count_told, rate_told, seconds_told, share_told, span_told

COLUMNS = {  # of the table of requests, each from its width on; the bar of marks stands behind the first two
    "request": 0,
    "state": 0,
    "planned": 120,
    "computed": 120,
    "accepted": 0,
    "published": 120,
    "prompt": 80,
    "output": 80,
    "cached": 80,
    "age": 0,
}
MIN_BAR = 8
LABEL_WIDTH = 9
LINES_BESIDE = 5  # an empty one, the table's head, how many more there are, the legend, the keys
SHOWN_REJECTIONS = 3
EVENTS = ("planned", "computed", "accepted", "published", "rejected", "recomputed")
STAGES = ("execute", "plan", "commit", "publish")
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
    is_paused: bool = False
    has_keys: bool = False


def draw(frame: Frame, look: Look) -> RenderableType:
    """Everything, from the top down; requests have the lines that the rest leaves."""
    head = [*_head(frame, look), *_pool(frame.sight.pool, look.width), *_counts(frame)]
    lines = [_fitted(line) for line in head]
    fallen = [_fitted(line) for line in _rejections(frame.rejections[:SHOWN_REJECTIONS])]
    room = None if look.height is None else look.height - len(lines) - len(fallen) - LINES_BESIDE
    parts: list[RenderableType] = [*lines, Text(""), *_requests(frame, look, room), *fallen]
    return Group(*parts, *([_keys(look)] if look.has_keys else []))


def _fitted(line: Text) -> Text:
    line.no_wrap, line.overflow = True, "ellipsis"
    return line


def _head(frame: Frame, look: Look) -> Iterator[Text]:
    sight = frame.sight
    state = Text(sight.server, style="green" if sight.server == "ready" else "bold yellow")
    parts = [Text(frame.info.model, style="bold"), Text(frame.info.architecture), state]
    parts += [Text(f"up {span_told(sight.uptime + frame.age)}"), Text(frame.url, style="dim")]
    yield Text("  ").join(parts)
    if frame.notice:
        yield Text(frame.notice, style="bold red")
    elif look.is_paused:
        yield Text("paused; p goes on", style="bold yellow")


def _line(label: str, *parts: Text | str) -> Text:
    told = [part if isinstance(part, Text) else Text(part) for part in parts if part]
    return Text.assemble((f"{label:{LABEL_WIDTH}}", "bold"), Text("  ").join(told))


def _bar(pieces: Iterable[Piece]) -> Text:
    return Text.assemble(*((piece.text, STYLES[piece.means]) for piece in pieces))


def _pool(pool: Pool, width: int) -> Iterator[Text]:
    """The whole pool as a bar that the capacity fills, and one a cache group where there are several."""
    room = width - LABEL_WIDTH
    yield _line("cache", _bar(pool_bar(pool.whole, pool.capacity, width=room)))
    yield _line("", _states(pool.whole, pool.free, pool.capacity, "blocks"))
    for number, group in enumerate(pool.groups):
        yield _line(f"  {number}", _bar(pool_bar(group, pool.capacity, width=room // 2)), group.name)
    if pool.slots is not None:
        yield _line("states", _states(pool.slots.whole, pool.slots.free, pool.slots.capacity, "slots"))


def _states(held: Held, free: int, capacity: int, noun: str) -> Text:
    counts = {"allocated": held.allocated, "shared": held.shared, "cached": held.cached, "free": free}
    parts = [Text.assemble((STATES[state], STYLES[state]), f" {state} {count_told(n)}") for state, n in counts.items()]
    return Text("  ").join([*parts, Text(f"of {count_told(capacity)} {noun}", style="dim")])


def _counts(frame: Frame) -> Iterator[Text]:
    sight, rates, info = frame.sight, frame.rates, frame.info
    yield _line("marks/s", *(f"{name} {rate_told(rates.positions.get(name, 0.0))}" for name in EVENTS))
    whole = sight.prefix_hits / sight.prefix_queries if sight.prefix_queries else None
    yield _line("prefix", f"hits {share_told(rates.hit_rate)} now, {share_told(whole)} since the start")
    yield _line(
        "queue",
        f"running {sight.running} of {info.max_sequences}",
        f"waiting {sight.waiting} of {info.max_waiting}",
        f"paused {sight.paused}",
        f"parked {sight.parked}",
        f"refused {count_told(sum(sight.refusals.values()))}",
        f"preempted {count_told(sight.preemptions)}",
        f"left {count_told(sight.disconnects)}",
    )
    positions = "" if rates.step_positions is None else f"{rates.step_positions:.0f} positions each"
    stages = [f"{name} {seconds_told(mean)}" for name in STAGES if (mean := rates.stages.get(name)) is not None]
    yield _line("steps", f"{rate_told(rates.steps)}/s", *stages, positions)
    yield _line("text", f"first token {seconds_told(rates.first_token)}", f"gap {seconds_told(rates.gap)}")
    drafts = [_draft(name, each, rates.drafts[name]) for name, each in rates.recent.items()]
    yield _line("drafts", *drafts or ["none"])


def _draft(source: str, recent: Drafts, rate: float) -> str:
    kept = share_told(recent.kept / recent.tokens if recent.tokens else None)
    return f"{source} {rate_told(rate)}/s, {kept} kept"


def _requests(frame: Frame, look: Look, room: int | None) -> Iterator[RenderableType]:
    ordered = sorted(frame.sight.sequences, key=_KEYS[look.order])
    shown = ordered if room is None else ordered[: max(1, room)]
    if not shown:
        yield _line("requests", "none")
        return
    scale = scale_of(max(max(sequence.accepted, sequence.planned) for sequence in shown))
    yield _table(frame, look, shown, scale)
    if num_more := len(ordered) - len(shown) + frame.sight.unlisted:
        yield Text(f"and {count_told(num_more)} more", style="dim")
    yield _legend(scale)


def _table(frame: Frame, look: Look, shown: list[Sequence], scale: int) -> Table:
    rows = [_cells(frame, sequence) for sequence in shown]
    names = [name for name, least in COLUMNS.items() if look.width >= least]
    widths = [max(len(name), *(len(row[name]) for row in rows)) for name in names]
    widths[0] = min(widths[0], max(MIN_BAR, look.width // 5))
    table = Table(box=None, padding=(0, 1, 0, 0), pad_edge=False, header_style="bold")
    bar_width = max(MIN_BAR, look.width - sum(widths) - len(names))
    for name, width in zip(names, widths, strict=True):
        if name == names[2]:
            table.add_column("marks", no_wrap=True, width=bar_width)
        justify: Literal["left", "right"] = "left" if name in names[:2] else "right"
        table.add_column(name, justify=justify, no_wrap=True, overflow="ellipsis", width=width)
    for sequence, row in zip(shown, rows, strict=True):
        cells: list[Text | str] = [row[name] for name in names]
        cells.insert(2, _bar(marks_bar(sequence, scale=scale, width=bar_width)))
        table.add_row(*cells)
    return table


def _cells(frame: Frame, sequence: Sequence) -> dict[str, str]:
    numbers = {name: count_told(getattr(sequence, name)) for name in ("planned", "computed", "accepted", "published")}
    return {
        "request": sequence.id,
        "state": sequence.state,
        **numbers,
        "prompt": count_told(sequence.prompt_tokens),
        "output": count_told(sequence.output_tokens),
        "cached": NOTHING if sequence.cached_tokens is None else count_told(sequence.cached_tokens),
        "age": span_told(frame.age_of(sequence)),
    }


def _legend(scale: int) -> Text:
    told = [Text.assemble((MARKS[means], STYLES[means]), f" {means}") for means in MARKS if means]
    return _fitted(Text("  ").join([Text(f"positions 0 to {count_told(scale)}", style="dim"), *told]))


def _rejections(fallen: Iterable[Rejection]) -> Iterator[Text]:
    for one in fallen:
        kept = f"{one.kept} of {one.drafted} kept"
        yield _line("fell", f"step {one.step}  {one.sequence} at {one.position}: {kept} ({one.source})")


def _keys(look: Look) -> Text:
    pause = "goes on" if look.is_paused else "pauses"
    return _fitted(Text(f"q leaves  p {pause}  s sorts (by {look.order.value})", style="dim"))
