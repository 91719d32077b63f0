"""Try public JSON schemas with a model: python -m tests.schemas --model MODEL [--most N] [--write]."""

import argparse
import asyncio
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks.cache.subject import running
from benchmarks.page import fill
from config.settings import Settings
from config.threads import let_threads_sleep
from engine.build import build
from engine.errors import EngineError
from tests.schemas.corpus import PINS, Case, corpus
from tests.schemas.table import table
from tests.schemas.trial import Trial, Verdict, tried
from tests.sdks.environment import ROOT, Environment

PAGE = ROOT / "docs" / "structured-output.md"
MARK = "schemas"


def main() -> int:
    """Try them, print what was found, and return 1 where an answer was invalid."""
    parser = argparse.ArgumentParser(prog="python -m tests.schemas", description="Try public schemas with a model.")
    parser.add_argument("--model", type=Path, required=True, help="a folder or a .gguf file")
    parser.add_argument("--most", type=int, help="try so many, evenly out of all")
    parser.add_argument("--write", action="store_true", help=f"put the table into {PAGE.relative_to(ROOT)}")
    arguments = parser.parse_args()
    results: list[Trial] = []

    def found() -> dict[str, str]:
        results.extend(results_of(some(schemas(), arguments.most), arguments.model))
        return {MARK: table(results)}

    code = fill(PAGE if arguments.write else None, [MARK], found, refusals=(EngineError, OSError))
    for trial in results:
        for fault in trial.faults:
            sys.stderr.write(f"{trial.case.source} {trial.case.name}: {fault}\n")
    return code or int(any(Verdict.INVALID in trial.verdicts for trial in results))


def schemas() -> list[Case]:
    """All of them, out of packages that are installed first."""
    environment = Environment("schemas", pins=PINS)
    environment.make()
    return corpus(next(environment.folder.glob("lib/python*/site-packages")))


def some(cases: Sequence[Case], most: int | None) -> Sequence[Case]:
    """As many as are wanted, from every part of the list."""
    return cases if most is None or most >= len(cases) else [cases[n * len(cases) // most] for n in range(most)]


def results_of(cases: Sequence[Case], model: Path) -> list[Trial]:
    """Every schema's trial, by an engine in this process."""
    let_threads_sleep()
    built = build(Settings.model_validate({"model": {"path": str(model)}}), progress=lambda _: None)

    async def run() -> list[Trial]:
        async with running(built.engine):
            return await tried(built.engine, built.tokenizer, cases)

    return asyncio.run(run())


if __name__ == "__main__":
    sys.exit(main())
