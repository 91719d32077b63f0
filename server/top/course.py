"""Course: what each step did to one sequence, and what befell it between, as `GET /ledger/{id}/steps` tells it."""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, replace

from server.top.values import WRONG, Json, NoSight, count_of, counts_of, number_of, shown_of, text_of

MAX_STEPS = 20_000  # as many as a server keeps of all requests


@dataclass(frozen=True, slots=True)
class Step:
    """What one step did to a sequence: it computed positions `start` to `stop` - 1; the marks are those behind it.

    `chosen` and `drafts` are text, where the server lets it be seen.
    """

    number: int
    time: float
    start: int
    stop: int
    planned: int
    computed: int
    accepted: int
    published: int
    tokens: int
    drafted: int
    kept: int
    source: str
    chosen: str | None = None
    drafts: str | None = None


@dataclass(frozen=True, slots=True)
class Happening:
    """What befell a sequence beside its steps. Numbered from 1."""

    number: int
    time: float
    event: str
    reason: str = ""
    error: str = ""
    cached: int | None = None
    lost: int = 0
    freed: int = 0


@dataclass(frozen=True, slots=True)
class Course:
    """The steps of one sequence, the oldest first, and its last happenings; `complete` if its first step was seen."""

    sequence: str
    complete: bool
    ended: str | None
    prompt_tokens: int | None
    cached_tokens: int | None
    steps: tuple[Step, ...] = ()
    happenings: tuple[Happening, ...] = ()

    @property
    def last(self) -> int:
        """The number of the last step that is known."""
        return self.steps[-1].number if self.steps else 0

    def joined(self, later: "Course") -> "Course":
        """This with a later answer's steps, which are those behind the ones that are known here."""
        known = self.happenings[-1].number if self.happenings else 0
        steps = (*self.steps, *(step for step in later.steps if step.number > self.last))
        happenings = (*self.happenings, *(each for each in later.happenings if each.number > known))
        base = self if self.steps else later  # what the first step told stays known, also where it is dropped there
        return replace(
            base,
            complete=base.complete and len(steps) <= MAX_STEPS,
            ended=later.ended,
            steps=steps[-MAX_STEPS:],
            happenings=happenings[-MAX_STEPS:],
        )

    def line(self) -> Iterator[Step | Happening]:
        """Steps and what befell the sequence between them, in the order of time. A step's time is that of its end."""
        happenings = deque(self.happenings)
        for step in self.steps:
            while happenings and happenings[0].time < step.time:
                yield happenings.popleft()
            yield step
        yield from happenings


def read_course(body: Json, sequence: str) -> Course:
    """One sequence's of a request's. Raises NoSight."""
    try:
        [mine] = [each for each in body["sequences"] if text_of(each["sequence"]) == sequence]
        return _read(mine)
    except WRONG as error:
        raise NoSight("what answers does not tell the steps of this sequence") from error


def _read(body: Json) -> Course:
    return Course(
        sequence=text_of(body["sequence"]),
        complete=bool(body["complete"]),
        ended=None if body["ended"] is None else text_of(body["ended"]),
        prompt_tokens=count_of(body["prompt_tokens"]),
        cached_tokens=count_of(body["cached_tokens"]),
        steps=tuple(_step(each) for each in body["steps"]),
        happenings=tuple(_happening(each) for each in body["events"]),
    )


def _step(body: Json) -> Step:
    start, stop = body["chunk"]
    return Step(
        number=int(body["step"]),
        time=number_of(body["time"]),
        start=int(start),
        stop=int(stop),
        **counts_of(body, "planned", "computed", "accepted", "published", "tokens", "drafted", "kept"),
        source=text_of(body["source"]),
        chosen=_text(body.get("chosen")),
        drafts=_text(body.get("drafts")),
    )


def _happening(body: Json) -> Happening:
    return Happening(
        number=int(body["number"]),
        time=number_of(body["time"]),
        event=text_of(body["event"]),
        reason=text_of(body.get("reason", "")),
        error=text_of(body.get("error", "")),
        cached=count_of(body.get("cached_tokens")),
        lost=int(body.get("lost", 0)),
        freed=int(body.get("freed", 0)),
    )


def _text(tokens: Json | None) -> str | None:
    return None if tokens is None else shown_of(tokens["text"])
