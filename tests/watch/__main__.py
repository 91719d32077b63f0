"""Try the board and the rules against a real Prometheus, over a server under load: python -m tests.watch [--write]."""

import argparse
import shutil
import sys
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from deploy.watch import MISSING
from tests.deploy.claim import tell
from tests.watch.claims import claims

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
    with TemporaryDirectory(prefix="tidemark-test-watch-") as name:
        found = partial(claims, prometheus, promtool, Path(name))
        return tell(found, page=PAGE if arguments.write else None, mark=MARK)


if __name__ == "__main__":
    sys.exit(main())
