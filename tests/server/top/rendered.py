"""What a person sees of something that is drawn."""

import io

from rich.console import Console, RenderableType


def rendered(drawn: RenderableType, width: int) -> list[str]:
    """Its lines, without what stands behind their ends."""
    console = Console(width=width, record=True, file=io.StringIO())
    console.print(drawn)
    return [line.rstrip() for line in console.export_text().splitlines()]
