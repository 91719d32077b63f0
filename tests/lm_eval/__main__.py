"""Score small tasks through the server and through transformers, with lm-eval: python -m tests.lm_eval [--write]."""

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.page import fill
from tests.http.processes import ServerProcess
from tests.lm_eval.harness import Harness
from tests.lm_eval.samples import Samples, difference
from tests.lm_eval.table import table
from tests.sdks.environment import ROOT, Environment
from tests.sdks.servers import FLAGS

PAGE = ROOT / "docs" / "scoring.md"
MARK = "lm-eval"
REFERENCE = "transformers, float32"


@dataclass(frozen=True, slots=True)
class Way:
    """A server's flags, and how many prompts a body holds."""

    name: str
    flags: tuple[str, ...]
    batch_sizes: tuple[int, ...]


WAYS: Sequence[Way] = (
    Way("Tidemark", (), batch_sizes=(1, 4)),
    Way("Tidemark, float32", ("--weights", "float32", "--cache-dtype", "float32"), batch_sizes=(4,)),
)


def main() -> int:
    """Print the table, and return 1 where a run differs from transformers."""
    parser = argparse.ArgumentParser(prog="python -m tests.lm_eval", description="Score tasks with lm-eval.")
    parser.add_argument("--model", type=Path, required=True, help="a .gguf file")
    parser.add_argument("--write", action="store_true", help=f"put the table into {PAGE.relative_to(ROOT)}")
    arguments = parser.parse_args()
    differing: list[str] = []

    def measured() -> dict[str, str]:
        runs = scored(arguments.model)
        differing.extend(name for name, run in runs.items() if not difference(run, runs[REFERENCE]).is_none)
        return {MARK: table(runs, reference=REFERENCE)}

    code = fill(PAGE if arguments.write else None, [MARK], measured, refusals=(OSError,))
    for name in differing:
        print(f"{name} differs from {REFERENCE}", file=sys.stderr)
    return code or int(bool(differing))


def scored(model: Path) -> dict[str, Samples]:
    """Every run, by name."""
    environment = Environment("lm_eval", pins=Path(__file__).parent / "pins")
    environment.make()
    with TemporaryDirectory() as home:
        harness = Harness(model, Path(home), environment)
        harness.prepare()
        runs = {REFERENCE: harness.through_transformers()}
        for way in WAYS:
            arguments = ("serve", str(model), *FLAGS, *way.flags)
            with ServerProcess("server", *arguments) as server, server.ready_client() as client:
                url = str(client.base_url).rstrip("/")
                for size in way.batch_sizes:
                    name = f"{way.name}, batches of {size}"
                    runs[name] = harness.through_server(url, name=name, batch_size=size)
        return runs


if __name__ == "__main__":
    sys.exit(main())
