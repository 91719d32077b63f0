"""Draw: one frame as what rich renders; nothing here reads or waits."""

from collections.abc import Iterable, Iterator
from typing import Literal

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from server.top.bars import STATES, marks_bar, pool_bar, scale_of
from server.top.parts import LABEL_WIDTH, STYLES, Look, bar_of, fitted, head, keys_line, legend, line_of, ordered
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
LINES_BESIDE = 5  # an empty one, the table's head, how many more there are, the legend, the keys
SHOWN_REJECTIONS = 3
LOW = 20  # lines of a terminal; where there are fewer, only the cache and the requests are shown
EVENTS = ("planned", "computed", "accepted", "published", "rejected", "recomputed")
STAGES = ("execute", "plan", "commit", "publish")
CHOSEN = "> "  # before the sequence that a person has chosen; the others are set in as far


def draw(frame: Frame, look: Look) -> RenderableType:
    """Everything, from the top down; requests have the lines that the rest leaves, which in a low terminal is less."""
    is_low = look.height is not None and look.height < LOW
    told = [*head(frame, look), *_pool(frame.sight.pool, look.width), *([] if is_low else _counts(frame))]
    lines = [fitted(line) for line in told]
    fallen = [fitted(line) for line in _rejections(frame.rejections[: 0 if is_low else SHOWN_REJECTIONS])]
    room = None if look.height is None else look.height - len(lines) - len(fallen) - LINES_BESIDE
    parts: list[RenderableType] = [*lines, Text(""), *_requests(frame, look, room), *fallen]
    return Group(*parts, *keys_line(look, _keys(look)))


def _pool(pool: Pool, width: int) -> Iterator[Text]:
    """The whole pool as a bar that the capacity fills, and one a cache group where there are several."""
    room = width - LABEL_WIDTH
    yield line_of("cache", bar_of(pool_bar(pool.whole, pool.capacity, width=room)))
    yield line_of("", _states(pool.whole, pool.free, pool.capacity, "blocks"))
    for number, group in enumerate(pool.groups):
        yield line_of(f"  {number}", bar_of(pool_bar(group, pool.capacity, width=room // 2)), group.name)
    if pool.slots is not None:
        yield line_of("states", _states(pool.slots.whole, pool.slots.free, pool.slots.capacity, "slots"))


def _states(held: Held, free: int, capacity: int, noun: str) -> Text:
    counts = {"allocated": held.allocated, "shared": held.shared, "cached": held.cached, "free": free}
    parts = [Text.assemble((STATES[state], STYLES[state]), f" {state} {count_told(n)}") for state, n in counts.items()]
    return Text("  ").join([*parts, Text(f"of {count_told(capacity)} {noun}", style="dim")])


def _counts(frame: Frame) -> Iterator[Text]:
    sight, rates, info = frame.sight, frame.rates, frame.info
    yield line_of("marks/s", *(f"{name} {rate_told(rates.positions.get(name, 0.0))}" for name in EVENTS))
    whole = sight.prefix_hits / sight.prefix_queries if sight.prefix_queries else None
    yield line_of("prefix", f"hits {share_told(rates.hit_rate)} now, {share_told(whole)} since the start")
    yield line_of(
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
    yield line_of("steps", f"{rate_told(rates.steps)}/s", *stages, positions)
    yield line_of("text", f"first token {seconds_told(rates.first_token)}", f"gap {seconds_told(rates.gap)}")
    drafts = [_draft(name, each, rates.drafts[name]) for name, each in rates.recent.items()]
    yield line_of("drafts", *drafts or ["none"])


def _draft(source: str, recent: Drafts, rate: float) -> str:
    kept = share_told(recent.kept / recent.tokens if recent.tokens else None)
    return f"{source} {rate_told(rate)}/s, {kept} kept"


def _requests(frame: Frame, look: Look, room: int | None) -> Iterator[RenderableType]:
    listed = ordered(frame.sight.sequences, look.order)
    shown = listed if room is None else _around(listed, look.chosen, max(1, room))
    if not shown:
        yield line_of("requests", "none")
        return
    scale = scale_of(max(max(sequence.accepted, sequence.planned) for sequence in shown))
    yield _table(frame, look, shown, scale)
    if num_more := len(listed) - len(shown) + frame.sight.unlisted:
        yield Text(f"and {count_told(num_more)} more", style="dim")
    yield legend(scale)


def _around(listed: list[Sequence], chosen: str | None, room: int) -> list[Sequence]:
    """The first ones, or as far down as the one that is chosen."""
    place = next((place for place, sequence in enumerate(listed) if sequence.id == chosen), 0)
    first = max(0, place + 1 - room)
    return listed[first : first + room]


def _table(frame: Frame, look: Look, shown: list[Sequence], scale: int) -> Table:
    rows = [_cells(frame, sequence, look.chosen) for sequence in shown]
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
        cells.insert(2, bar_of(marks_bar(sequence, scale=scale, width=bar_width)))
        table.add_row(*cells, style="reverse" if sequence.id == look.chosen else None)
    return table


def _cells(frame: Frame, sequence: Sequence, chosen: str | None) -> dict[str, str]:
    before = "" if chosen is None else CHOSEN if sequence.id == chosen else " " * len(CHOSEN)
    numbers = {name: count_told(getattr(sequence, name)) for name in ("planned", "computed", "accepted", "published")}
    return {
        "request": before + sequence.id,
        "state": sequence.state,
        **numbers,
        "prompt": count_told(sequence.prompt_tokens),
        "output": count_told(sequence.output_tokens),
        "cached": NOTHING if sequence.cached_tokens is None else count_told(sequence.cached_tokens),
        "age": span_told(frame.age_of(sequence)),
    }


def _rejections(fallen: Iterable[Rejection]) -> Iterator[Text]:
    for one in fallen:
        kept = f"{one.kept} of {one.drafted} kept"
        yield line_of("fell", f"step {one.step}  {one.sequence} at {one.position}: {kept} ({one.source})")


def _keys(look: Look) -> str:
    opens = "up down choose" if look.chosen is None else "enter opens  esc lets go"
    return f"s sorts (by {look.order.value})  {opens}  m map"
