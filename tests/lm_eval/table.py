"""The page's table: what each way to a model scored, and how far it is from transformers."""

from collections.abc import Mapping

from tests.lm_eval.samples import Samples, difference


def table(runs: Mapping[str, Samples], *, reference: str) -> str:
    """A column for each run, by name; the last rows compare it with the run named `reference`."""
    names = [reference, *(name for name in runs if name != reference)]
    rows = [["", *names], ["---", *("---:" for _ in names)]]
    rows += [[metric, *(f"{runs[name].scores[metric]:.4g}" for name in names)] for metric in runs[reference].scores]
    compared = [difference(runs[name], runs[reference]) for name in names[1:]]
    rows.append(["largest difference of a log-probability", "", *(f"{each.worst:.2%}" for each in compared)])
    greedy = [f"{each.num_greedy} of {each.num_scored}" for each in compared]
    rows.append(["requests that are greedy for one alone", "", *greedy])
    rows.append(["texts that differ", "", *(f"{each.num_said_otherwise} of {each.num_said}" for each in compared)])
    return "\n".join("| " + " | ".join(row) + " |" for row in rows)
