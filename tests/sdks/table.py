"""The table of clients: what each was seen to do, and what it was not."""

from collections.abc import Sequence

from tests.sdks.run import Result

HEAD = ("client", "version", "what was tried", "result")


def table(results: Sequence[Result]) -> str:
    """One row for each client, as Markdown."""
    rows = [(result.client.title, result.version, _tried(result), _outcome(result)) for result in results]
    return "\n".join("| " + " | ".join(row) + " |" for row in (HEAD, ("---",) * len(HEAD), *rows))


def _tried(result: Result) -> str:
    return "; ".join(claim.text for claim in result.claims)


def _outcome(result: Result) -> str:
    held = sum(claim.failure is None for claim in result.claims)
    if result.broke is None and held == len(result.claims):
        return f"all {held}"
    missed = [claim.text for claim in result.claims if claim.failure is not None]
    return f"{held} of {len(result.claims)}; not: {', '.join(missed) or 'what was left when it broke off'}"
