"""Samples: what lm-eval wrote of each request, and how far two runs of the same tasks are apart."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import orjson

PERPLEXITY_TOLERANCE = 0.01
LOGPROB_TOLERANCE = 0.02
Scores = Mapping[str, float]  # by task and metric


@dataclass(frozen=True, slots=True)
class Samples:
    """One run: its metrics, and of each request its log-probability and whether it is greedy, or what was said."""

    scores: Scores
    scored: Mapping[str, tuple[float, bool | None]]
    said: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Difference:
    """What two runs differ in."""

    scores: tuple[str, ...]  # metrics that are not the same
    worst: float  # the largest difference of a request's log-probability, as a share of it
    num_scored: int
    num_greedy: int  # requests of which one run says that they are greedy and the other does not
    num_said: int
    num_said_otherwise: int

    @property
    def is_none(self) -> bool:
        """Whether the two agree as far as two arithmetics can."""
        return not (self.scores or self.num_greedy or self.num_said_otherwise) and self.worst <= LOGPROB_TOLERANCE


def read_samples(output: Path) -> Samples:
    """Whatever lm-eval wrote below a folder."""
    [results] = output.rglob("results_*.json")
    scores = {
        f"{task} {metric.partition(',')[0]}": value
        for task, found in orjson.loads(results.read_bytes())["results"].items()
        for metric, value in found.items()
        if isinstance(value, float) and "stderr" not in metric
    }
    scored: dict[str, tuple[float, bool | None]] = {}
    said: dict[str, str] = {}
    for file in sorted(output.rglob("samples_*.jsonl")):
        task = file.name.removeprefix("samples_").rpartition("_")[0]
        for line in file.read_bytes().splitlines():
            sample = orjson.loads(line)
            for number, [answer] in enumerate(sample["resps"]):
                key = f"{task} {sample['doc_id']} {number}"
                if isinstance(answer, list):
                    scored[key] = (float(answer[0]), str(answer[1]) == "True")
                elif b'"until":' in orjson.dumps(sample["arguments"]):
                    said[key] = answer
                else:
                    scored[key] = (float(answer), None)
    return Samples(scores, scored, said)


def difference(ours: Samples, theirs: Samples) -> Difference:
    """How far two runs are apart. Raises ValueError where they are not of the same requests."""
    if (ours.scored.keys(), ours.said.keys()) != (theirs.scored.keys(), theirs.said.keys()):
        raise ValueError("the two runs were not asked the same")
    pairs = [(ours.scored[key], theirs.scored[key]) for key in ours.scored]
    return Difference(
        scores=tuple(name for name, value in ours.scores.items() if not _same(name, value, theirs.scores[name])),
        worst=max(abs(mine - other) / abs(other) for (mine, _), (other, _) in pairs),
        num_scored=len(pairs),
        num_greedy=sum(mine is not other for (_, mine), (_, other) in pairs),
        num_said=len(ours.said),
        num_said_otherwise=sum(text != theirs.said[key] for key, text in ours.said.items()),
    )


def _same(name: str, ours: float, theirs: float) -> bool:
    """Shares of right answers are the same to the last; a perplexity is as near as two arithmetics are."""
    return abs(ours - theirs) <= PERPLEXITY_TOLERANCE * theirs if "perplexity" in name else ours == theirs
