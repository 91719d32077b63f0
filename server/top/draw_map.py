"""Draw the map: every unit of the pool as a character, row by row, and what the one under the cursor holds."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import groupby
from operator import itemgetter
from string import ascii_letters

from rich.console import Group, RenderableType
from rich.text import Text

from server.top.bars import STATES
from server.top.parts import LABEL_WIDTH, STYLES, Look, Order, fitted, head, keys_line, line_of, ordered
from server.top.sight import Sequence
from server.top.story import Frame
from server.top.units import Unit
from server.top.words import count_told, span_of

LINES_BESIDE = 10  # the head, who is who, what the cursor is on, the keys
LEAST = 2  # rows, however low the terminal is
STEP = 8  # cells that a row's length is a multiple of, where it is as long
MOST_HELD = ("shared", "allocated", "cached", "free")  # a cell that stands for several units shows the first of these
SHOWN_OWNERS = 3
OWNER_LINES = 2
SHORT = 20  # characters of a name that stands beside others


@dataclass(frozen=True, slots=True)
class Grid:
    """Cells in rows of `width`; each stands for `per` units, the last one perhaps for fewer."""

    width: int
    per: int
    num_units: int

    @property
    def num_cells(self) -> int:
        """How many there are."""
        return -(-self.num_units // self.per)

    def units(self, cell: int) -> range:
        """Those that a cell stands for."""
        return range(cell * self.per, min((cell + 1) * self.per, self.num_units))

    def cell(self, unit: int) -> int:
        """Which cell stands for a unit."""
        return min(unit, self.num_units - 1) // self.per

    def moved(self, unit: int, key: str) -> int:
        """Where a key takes the cursor: the first unit of another cell, or where it is."""
        steps = {"left": -1, "right": 1, "up": -self.width, "down": self.width}
        ends = {"home": 0, "end": self.num_cells - 1}
        before = self.cell(unit)
        cell = ends.get(key, before + steps.get(key, 0))
        return cell * self.per if 0 <= cell < self.num_cells and cell != before else unit


def grid_of(num_units: int, look: Look) -> Grid:
    """As large as the terminal lets it be."""
    room = max(1, look.width - LABEL_WIDTH)
    width = room // STEP * STEP or room
    rows = max(LEAST, (look.height or 0) - LINES_BESIDE)
    return Grid(width, max(1, -(-num_units // (width * rows))), num_units)


@dataclass(frozen=True, slots=True)
class Cursor:
    """The unit that a person looks at, and what the server says of it, once it has; and each sequence's letter."""

    unit: int
    held: Unit | None = None
    notice: str = ""
    letters: Mapping[str, str] = field(default_factory=dict)


def letters_of(sequences: Iterable[Sequence], before: Mapping[str, str]) -> dict[str, str]:
    """A letter for each that holds blocks, as long as there are any. Who had one keeps it, waiting or not."""
    kept = {sequence.id: before[sequence.id] for sequence in sequences if sequence.id in before}
    free = (letter for letter in ascii_letters if letter not in kept.values())
    new = (sequence.id for sequence in ordered(sequences, Order.AGE) if sequence.tables and sequence.id not in kept)
    return kept | dict(zip(new, free, strict=False))


def foremost(frame: Frame, cell: range) -> int:
    """Of the units of a cell, the first of those whose state is the one that is drawn."""
    drawn = min(frame.units.states(cell), key=MOST_HELD.index)
    return next(unit for unit in cell if frame.units.states(range(unit, unit + 1)) == {drawn})


def draw_map(frame: Frame, cursor: Cursor, look: Look) -> RenderableType:
    """From the top down."""
    grid = grid_of(frame.info.num_units, look)
    letters = cursor.letters
    lines = [*head(frame, look), _legend(grid), *_rows(frame, grid, letters, grid.cell(cursor.unit))]
    lines += [*_owners(letters, look.width), *_under(frame, grid, cursor)]
    return Group(*map(fitted, lines), *keys_line(look, "esc back  arrows home end move"))


def _legend(grid: Grid) -> Text:
    signs = STATES | {"allocated": "a letter"}
    per = "each a block's place" if grid.per == 1 else f"each {count_told(grid.per)} blocks' places"
    return line_of("map", *(Text(f"{sign} {state}", style=STYLES[state]) for state, sign in signs.items()), per)


def _rows(frame: Frame, grid: Grid, letters: Mapping[str, str], under: int) -> Iterator[Text]:
    owners = frame.units.owners()

    def sign_of(cell: int) -> tuple[str, str]:
        """Its style and its sign."""
        state = min(frame.units.states(grid.units(cell)), key=MOST_HELD.index)
        style = f"{STYLES[state]} reverse" if cell == under else STYLES[state]
        if state != "allocated":
            return style, STATES[state]
        holders = (owner for unit in grid.units(cell) for owner in owners.get(unit, ()))
        return style, letters.get(next(holders, ""), STATES[state])

    for first in range(0, grid.num_cells, grid.width):
        row = Text(f"{count_told(first * grid.per):>{LABEL_WIDTH - 1}} ", style="dim")
        signs = map(sign_of, range(first, min(first + grid.width, grid.num_cells)))
        for style, run in groupby(signs, key=itemgetter(0)):
            row.append("".join(sign for _, sign in run), style=style)
        yield row


def _owners(letters: Mapping[str, str], width: int) -> Iterator[Text]:
    """Whose each letter is, in a line or two."""
    names = [f"{letter} {_short(sequence)}" for sequence, letter in letters.items()]
    in_line = max(1, (width - LABEL_WIDTH) // (SHORT + len("a  ")))
    for line, first in enumerate(range(0, min(len(names), OWNER_LINES * in_line), in_line)):
        yield line_of("" if line else "whose", *names[first : first + in_line])


def _short(sequence: str) -> str:
    if len(sequence) <= SHORT:
        return sequence
    request, slash, choice = sequence.rpartition("/")
    return f"{request[: SHORT - 1 - len(slash + choice)]}…{slash}{choice}"


def _under(frame: Frame, grid: Grid, cursor: Cursor) -> Iterator[Text]:
    """What the unit under the cursor holds."""
    units, unit = grid.units(grid.cell(cursor.unit)), cursor.held
    beside = "" if len(units) == 1 else f"of {count_told(units.start)} to {count_told(units.stop - 1)}"
    if unit is None:
        yield line_of("unit", count_told(cursor.unit), beside)
    else:
        yield line_of("unit", count_told(unit.number), beside, unit.state, *_held(frame, unit))
        if unit.text is not None:
            yield line_of("text", f'"{unit.text}"')
    if cursor.notice:
        yield Text(cursor.notice, style="bold yellow")


def _held(frame: Frame, unit: Unit) -> Iterator[str]:
    if unit.group is not None and len(frame.info.groups) > 1:
        yield frame.info.groups[unit.group]
    if unit.positions is not None:
        yield f"positions {span_of(*unit.positions)}"
    if unit.owners:
        num_more = len(unit.owners) - SHOWN_OWNERS
        named = ", ".join(map(_short, unit.owners[:SHOWN_OWNERS]))
        yield f"of {named} and {count_told(num_more)} more" if num_more > 0 else f"of {named}"
