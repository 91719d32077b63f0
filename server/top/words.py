"""Words: numbers as people read them, in few characters."""

NOTHING = "-"
MINUTE, HOUR, DAY = 60, 3600, 86400


def count_told(count: float) -> str:
    """A whole number with its thousands apart."""
    return f"{count:,.0f}"


def span_of(first: int, stop: int) -> str:
    """The positions from the first to the one before `stop`."""
    return count_told(first) if stop == first + 1 else f"{count_told(first)} to {count_told(stop - 1)}"


def rate_told(rate: float) -> str:
    """A number a second, with a digit behind the point where it is small."""
    return f"{rate:.1f}" if 0 < rate < 10 else f"{rate:,.0f}"  # noqa: PLR2004  # two digits are enough


def seconds_told(seconds: float | None) -> str:
    """A short time."""
    if seconds is None:
        return NOTHING
    if seconds < 1:
        return f"{seconds * 1000:.1f} ms" if seconds < 0.01 else f"{seconds * 1000:.0f} ms"  # noqa: PLR2004  # as above
    return f"{seconds:.1f} s"


def moment_told(seconds: float) -> str:
    """A moment in the course of something."""
    return f"{seconds:.2f} s"


def span_told(seconds: float) -> str:
    """A long time, in its two largest units."""
    whole = int(seconds)
    if whole < MINUTE:
        return f"{whole} s"
    if whole < HOUR:
        return f"{whole // MINUTE} min {whole % MINUTE:02} s"
    if whole < DAY:
        return f"{whole // HOUR} h {whole % HOUR // MINUTE:02} min"
    return f"{whole // DAY} d {whole % DAY // HOUR:02} h"


def share_told(share: float | None) -> str:
    """A part of a whole."""
    return NOTHING if share is None else f"{share:.0%}"
