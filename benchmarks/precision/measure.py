"""Runs a model in many ways over the same windows of text, in turns, beside float32 arithmetic."""

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import torch

from benchmarks.precision.loss import Loss, Tally, Truth
from benchmarks.precision.rounding import Rounding, rounded_subjects
from benchmarks.precision.subjects import Room, Subject, make_subject, num_tables_of
from benchmarks.precision.ways import REFERENCE, choices_of, levels_of
from engine.model.kernels.choice import Choice
from engine.step import Chunk, Plan, Score, Ticket

STEP = 128  # positions: the logits of more take much memory

Window = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Result:
    """What a subject costs, and what it takes."""

    loss: Loss
    weight_bytes: int
    position_bytes: int


@dataclass(frozen=True, slots=True)
class Results:
    """All of one run, each by its name."""

    reference: Result
    levels: dict[str, Result]
    choices: dict[str, Result]
    roundings: dict[str, Result]


def measure(
    path: str,
    kernels: Sequence[Choice],
    roundings: Mapping[str, Rounding],
    texts: Sequence[Window],
    *,
    num_threads: int,
) -> Results:
    """Load everything beside each other and score every window. Raises ModelError."""
    room = Room(len(texts[0]), max_rows=STEP, num_threads=num_threads, num_tables=num_tables_of(path))
    reference = make_subject(path, REFERENCE, room, progress=say)
    levels, choices = (
        {name: make_subject(path, way, room, progress=say) for name, way in ways.items()}
        for ways in (levels_of(kernels), choices_of(kernels[-1]))
    )
    rounded = rounded_subjects(path, roundings, room) if roundings else {}
    subjects = {"": reference, **levels, **choices, **rounded}
    found = dict(zip(subjects, compare(list(subjects.values()), texts, room), strict=True))
    named = ({name: found[name] for name in group} for group in (levels, choices, rounded))
    return Results(found[""], *named)


@torch.inference_mode()
def compare(subjects: Sequence[Subject], texts: Sequence[Window], room: Room) -> list[Result]:
    """Score every window with every subject, the first of which tells the truth; closes them."""
    tallies = [Tally() for _ in subjects]
    for number, text in enumerate(texts, 1):
        say(f"window {number} of {len(texts)}")
        for plan, targets in steps(text, room):
            truth = Truth(subjects[0].forward.run(plan), targets)
            tallies[0].add(truth, truth.logits)
            for subject, tally in zip(subjects[1:], tallies[1:], strict=True):
                tally.add(truth, subject.forward.run(plan))
    for subject in subjects:
        subject.forward.close()
    return [
        Result(tally.loss(), subject.weight_bytes, subject.position_bytes)
        for subject, tally in zip(subjects, tallies, strict=True)
    ]


def steps(text: Window, room: Room) -> Iterator[tuple[Plan, Window]]:
    """Plans that compute a window from its first position on, and the token that follows each position."""
    for start in range(0, len(text) - 1, room.max_rows):
        targets = text[start + 1 : start + 1 + room.max_rows]
        ticket = Ticket("text", epoch=0, incarnation=0, base=start, tables=room.tables)
        chunk = Chunk(ticket, text[start : start + len(targets)], score=Score(start, targets, top_logprobs=0))
        yield Plan(start // room.max_rows + 1, (chunk,)), targets


def say(text: str) -> None:
    """To whoever waits."""
    print(text, file=sys.stderr, flush=True)
