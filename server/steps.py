"""Steps as text: one line or one JSON object for each sequence in each step of a trace."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise

import orjson

from engine.stats import CacheInfo, StepRecord, StepRow, TableView

BAR_CELLS = 32
TIMES = "×"  # the sign itself, not the letter
LEGEND = "█ computed before, or found in the cache  ▓ computed in this step  ▒ chosen, not in the cache yet"
DRAFTS_LEGEND = "░ drafted and rejected: written in this step, rolled back, never read"
GROUPS_LEGEND = "blocks: by cache group, between bars  gone: given back, since no position still to be computed sees it"
STATES_LEGEND = "state: the slot of the recurrent state  checkpoint: a copy of it that the step left for later prompts"
_HEADS = ("step", "sequence", "chunk", "planned", "computed", "accepted", "published", "chosen")
_WIDTHS = (4, 8, 9, 7, 8, 8, 9, 12)


def legend(cache: CacheInfo) -> Iterator[str]:
    """What the signs mean that a table of this cache's blocks may have."""
    yield LEGEND
    yield DRAFTS_LEGEND
    if cache.by_group:
        yield GROUPS_LEGEND
    if cache.num_slots:
        yield STATES_LEGEND


def header(*, num_positions: int) -> str:
    """The table's head, for sequences of at most `num_positions`."""
    return _columns((*_HEADS, _bar_head(num_positions), "blocks"), num_positions)


def lines(record: StepRecord, *, num_positions: int, text_of: Callable[[int], str]) -> Iterator[str]:
    """One line for each sequence in the step."""
    for row in record.rows:
        chosen = repr("".join(text_of(token) for token in row.tokens)) if row.tokens else "-"
        start, stop = row.chunk
        marks = (str(mark) for mark in (row.planned, row.computed, row.accepted, row.published))
        cells = (str(record.step), row.sequence, f"[{start},{stop})", *marks, shorten(chosen))
        yield _columns((*cells, bar(row, num_positions=num_positions), places(row)), num_positions)
        if row.fed is not None:
            yield f"      {row.sequence} draft model computed [{row.fed[0]},{row.fed[1]})"
        if row.drafts:
            yield _verdict(row, chosen, text_of)


def shorten(chosen: str) -> str:
    """As much of the chosen text as has room."""
    width = _WIDTHS[-1]
    return chosen if len(chosen) <= width else f"{chosen[: width - 1]}…"


def _verdict(row: StepRow, chosen: str, text_of: Callable[[int], str]) -> str:
    """What was drafted, what was chosen instead, and what is taken back."""
    drafted = repr("".join(text_of(token) for token in row.drafts))
    kept = f"{row.num_kept} of {len(row.drafts)} kept"
    told = f"      {row.sequence} drafted {drafted} by {row.source}, {kept}; chose {chosen}"
    rejected = f"; positions [{row.computed},{row.planned}) rolled back" if row.computed < row.planned else ""
    return told + rejected


def objects(record: StepRecord, cache: CacheInfo) -> Iterator[str]:
    """One JSON object for each sequence in the step."""
    for row in record.rows:
        yield orjson.dumps(_fields(record, row) | _more_fields(row, cache)).decode()


def _fields(record: StepRecord, row: StepRow) -> dict[str, object]:
    return {
        "step": record.step,
        "sequence": row.sequence,
        "chunk": row.chunk,
        "planned": row.planned,
        "computed": row.computed,
        "accepted": row.accepted,
        "published": row.published,
        "tokens": row.tokens,
        "blocks": row.blocks,
    }


def _more_fields(row: StepRow, cache: CacheInfo) -> dict[str, object]:
    """What only a cache of several groups, or of recurrent states, has to tell, and a step with drafts."""
    tables = [{"group": table.group, "first": table.first, "blocks": table.blocks} for table in row.tables]
    by_group: dict[str, object] = {"tables": tables} if cache.by_group else {}
    states: dict[str, object] = {"slot": row.slot, "checkpoints": row.checkpoints} if cache.num_slots else {}
    draft: dict[str, object] = {"source": row.source, "tokens": row.drafts, "kept": row.num_kept}
    fed: dict[str, object] = {} if row.fed is None else {"fed": row.fed}
    return by_group | states | fed | ({"draft": draft} if row.drafts else {})


def bar(row: StepRow, *, num_positions: int) -> str:
    """The sequence from its first position to its last possible one; a cell shows what is new in it, if anything is."""
    num_cells = _num_cells(num_positions)
    edges = [cell * num_positions // num_cells for cell in range(num_cells + 1)]
    return "".join(_cell(row, low, high) for low, high in pairwise(edges))


def _cell(row: StepRow, low: int, high: int) -> str:
    start, _ = row.chunk
    if max(low, start) < min(high, row.computed):
        return "▓"
    if max(low, row.computed) < min(high, row.accepted):
        return "▒"
    if max(low, row.accepted) < min(high, row.planned):
        return "░"
    return "█" if low < row.computed else "·"


def places(row: StepRow) -> str:
    """The blocks of each group, the slot of the recurrent state and the checkpoints that were taken."""
    parts = [_table(table) for table in row.tables]
    if row.slot is not None:
        taken = (f"checkpoint {slot} at {position}" for position, slot in row.checkpoints)
        parts.append(" ".join((f"state {row.slot}", *taken)))
    return " | ".join(parts)


def _table(table: TableView) -> str:
    shown = owners(table.blocks)
    return f"{table.first} gone {shown}" if table.first else shown


def owners(blocks: Sequence[tuple[int, int]]) -> str:
    """Block ids in order, runs joined, with the number of their owners where it is not one."""
    return " ".join(_run(run) for run in _runs(blocks)) or "-"


def _runs(blocks: Iterable[tuple[int, int]]) -> Iterator[list[tuple[int, int]]]:
    run: list[tuple[int, int]] = []
    for block, count in blocks:
        if run and (block, count) != (run[-1][0] + 1, run[-1][1]):
            yield run
            run = []
        run.append((block, count))
    if run:
        yield run


def _run(run: list[tuple[int, int]]) -> str:
    (first, count), (last, _) = run[0], run[-1]
    ids = str(first) if first == last else f"{first}-{last}"
    return ids if count == 1 else f"{ids}{TIMES}{count}"


def _num_cells(num_positions: int) -> int:
    return min(BAR_CELLS, num_positions)


def _bar_head(num_positions: int) -> str:
    return f"positions 0 to {num_positions - 1}"


def _columns(cells: Iterable[str], num_positions: int) -> str:
    widths = (*_WIDTHS, max(_num_cells(num_positions), len(_bar_head(num_positions))), 0)
    return "  ".join(f"{cell:<{width}}" for cell, width in zip(cells, widths, strict=True))
