"""Try the board and the rules against a real Prometheus, over a server under load: python -m tests.watch [--write]."""

import argparse
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.page import fill
from deploy.watch import MISSING
from tests.watch.claims import Claim, claims

PAGE = Path(__file__).parents[2] / "docs" / "operations.md"
MARK = "watch"


def main() -> int:
    """Try every claim, print what was found, and return 1 where one did not hold."""
    parser = argparse.ArgumentParser(prog="python -m tests.watch", description="Try the board and the rules.")
    parser.add_argument("--write", action="store_true", help=f"put the table into {PAGE.name}")
    arguments = parser.parse_args()
    prometheus, promtool = shutil.which("prometheus"), shutil.which("promtool")
    if prometheus is None or promtool is None:
        print(MISSING, file=sys.stderr)
        return 1
    tried: list[Claim] = []

    def found() -> dict[str, str]:
        with TemporaryDirectory(prefix="tidemark-test-watch-") as name:
            tried.extend(claims(prometheus, promtool, Path(name)))
        return {MARK: table(tried)}

    code = fill(PAGE if arguments.write else None, [MARK], found, refusals=(TimeoutError,))
    for claim in tried:
        if claim.failure is not None:
            print(f"{claim.text}: {claim.failure}", file=sys.stderr)
    return code or int(any(claim.failure is not None for claim in tried))


def table(tried: Sequence[Claim]) -> str:
    """One row for each claim, as Markdown."""
    rows = [(claim.text, str(claim.count), "held" if claim.failure is None else "did not hold") for claim in tried]
    head = (("what was tried", "over how many", "result"), ("---", "---:", "---"))
    return "\n".join("| " + " | ".join(row) + " |" for row in (*head, *rows))


if __name__ == "__main__":
    sys.exit(main())
