"""Try clients against this server, each in an environment of its own: python -m tests.sdks [NAMES] [--write]."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks.page import fill
from tests.sdks.catalogue import CLIENTS, Client
from tests.sdks.environment import ROOT
from tests.sdks.run import Result, run
from tests.sdks.servers import servers
from tests.sdks.table import table

PAGE = ROOT / "docs" / "clients.md"
MARK = "clients"


def main() -> int:
    """Try them, print what was found, and return 1 where anything failed."""
    names = [client.name for client in CLIENTS]
    parser = argparse.ArgumentParser(prog="python -m tests.sdks", description="Try clients against this server.")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"some of {', '.join(names)}; all, if none is named")
    parser.add_argument("--model", type=Path, required=True, help="a folder or a .gguf file")
    parser.add_argument("--write", action="store_true", help=f"put the table into {PAGE.relative_to(ROOT)}")
    arguments = parser.parse_args()
    if unknown := sorted({*arguments.names} - {*names}):
        parser.error(f"no such client: {', '.join(unknown)}")
    if arguments.write and arguments.names:
        parser.error("the page has the table of all clients")
    chosen = [client for client in CLIENTS if client.name in (arguments.names or names)]
    results: list[Result] = []

    def found() -> dict[str, str]:
        results.extend(tried(chosen, arguments.model))
        return {MARK: table(results)}

    code = fill(PAGE if arguments.write else None, [MARK], found, refusals=(OSError,))
    for result in results:
        for failure in result.failures:
            print(f"{result.client.title}: {failure}", file=sys.stderr)
    return code or int(any(result.failures for result in results))


def tried(clients: Sequence[Client], model: Path) -> list[Result]:
    """Every client's result, one after the other against the same servers."""
    with servers(model) as addresses:
        return [run(client, addresses) for client in clients]


if __name__ == "__main__":
    sys.exit(main())
