"""What was found, as it stands in the page."""

import re
from collections import Counter
from collections.abc import Sequence

from benchmarks.table import markdown
from tests.schemas.trial import Trial, Verdict

MOST_REASONS = 8  # lines; the rest is counted together
_VARYING = re.compile(r"""["'`\[(].*|https?:.*|\d+.*""")


def table(trials: Sequence[Trial]) -> str:
    """A line for each source, and why schemas were refused."""
    sources = sorted({trial.case.source for trial in trials})
    lines = [_line(source, [trial for trial in trials if trial.case.source == source]) for source in sources]
    if len(sources) > 1:
        lines.append(_line("all", trials))
    head = ("source", "schemas", "refused, with a reason", "answered", *(f"answers: {each.value}" for each in Verdict))
    return f"{markdown(head, lines)}\n\n{_reasons(trials)}"


def _line(title: str, trials: Sequence[Trial]) -> tuple[str, ...]:
    refused = sum(trial.refusal is not None for trial in trials)
    verdicts = Counter(verdict for trial in trials for verdict in trial.verdicts)
    counts = (len(trials), refused, len(trials) - refused, *(verdicts[each] for each in Verdict))
    return title, *(f"{count:,}" for count in counts)


def _reasons(trials: Sequence[Trial]) -> str:
    """What the refusals have in common."""
    kinds = Counter(kind_of(trial.refusal) for trial in trials if trial.refusal is not None)
    told = [(kind, f"{count:,}") for kind, count in kinds.most_common(MOST_REASONS)]
    rest = sum(kinds.values()) - sum(count for _, count in kinds.most_common(MOST_REASONS))
    return markdown(("refused because", "schemas"), [*told, *([("other reasons", f"{rest:,}")] if rest else [])])


def kind_of(reason: str) -> str:
    """A reason without what is particular to a schema; keywords that are not known stay."""
    keys = re.match(r"Unimplemented keys: \[(.*)\]", reason)
    if keys:
        return f"keywords that can't be enforced: {keys[1].replace(chr(34), '')}"
    return _VARYING.sub("…", reason).strip().replace("|", "/")
