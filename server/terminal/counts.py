"""Counts: what answers took, and how that is told."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Counts:
    """What an answer took. `first_seconds` is None where no text came."""

    prompt: int
    cached: int
    made: int
    accepted: int
    rejected: int
    first_seconds: float | None
    seconds: float

    @property
    def rate(self) -> float | None:
        """Tokens a second behind the first text."""
        if self.first_seconds is None or self.seconds <= self.first_seconds or self.made <= 1:
            return None
        return (self.made - 1) / (self.seconds - self.first_seconds)


def told(counts: Counts) -> str:
    """What one answer took, on one line."""
    return "; ".join(_parts(counts))


def _parts(counts: Counts) -> Iterator[str]:
    yield f"prompt {counts.prompt} tokens, {counts.cached} cached"
    rate = "" if counts.rate is None else f", {counts.rate:.0f}/s"
    yield f"answer {counts.made} tokens{rate}"
    yield f"accepted {counts.accepted} of {counts.accepted + counts.rejected} predicted"
    if counts.first_seconds is not None:
        yield f"first after {counts.first_seconds:.2f} s"


def told_of_all(all_counts: Sequence[Counts]) -> str:
    """What several answers took together, on one line."""
    prompt, cached, made, accepted = (
        sum(getattr(counts, name) for counts in all_counts) for name in ("prompt", "cached", "made", "accepted")
    )
    seconds = sum(counts.seconds for counts in all_counts)
    return (
        f"{len(all_counts)} answers in {seconds:.1f} s; prompts {prompt} tokens, {cached} cached; "
        f"answers {made} tokens, {accepted} of them predicted"
    )
