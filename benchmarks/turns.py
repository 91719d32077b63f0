"""Turns: what benchmarks share that run the same requests in several ways, by turns, and have a page for the table."""

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from benchmarks.conditions import ROOT, current, num_cores, quiet
from benchmarks.cores import Cores
from benchmarks.options import MAX_WAIT_SECONDS
from benchmarks.page import fill
from benchmarks.process import ServerFailed, end_on_sigterm
from config.threads import let_threads_sleep
from engine.errors import EngineError

Prepared = Callable[[], str]  # runs everything, and gives the table


@dataclass(frozen=True)
class Sizes:
    """How much is run: tokens of an answer, requests at once, and rounds of each way."""

    num_outputs: int
    num_streams: int
    num_rounds: int


@dataclass(frozen=True)
class Comparison:
    """One such benchmark. `told` says in a sentence how the figures came about."""

    page: Path
    mark: str
    whole: Sizes
    smoke: Sizes
    told: Callable[[Sizes], str]
    prepare: Callable[[argparse.Namespace, Sizes], Prepared]

    def parser(self, description: str | None) -> argparse.ArgumentParser:
        """The command line."""
        made = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
        made.add_argument("--model", required=True, help="a folder or a .gguf file")
        made.add_argument("--threads", type=int, default=num_cores())
        rounds = self.whole.num_rounds
        made.add_argument("--rounds", type=int, default=rounds, metavar="N", help="runs of each kind")
        made.add_argument("--wait", type=float, default=MAX_WAIT_SECONDS, help="seconds to wait for a quiet machine")
        output = made.add_mutually_exclusive_group()
        output.add_argument("--write", action="store_true", help=f"put the table into {self.page.relative_to(ROOT)}")
        output.add_argument("--smoke", action="store_true", help="a few tokens, to see that it works")
        return made

    def main(self, parser: argparse.ArgumentParser) -> int:
        """Measure and print; the exit code says whether it could be done."""
        args = parser.parse_args()
        end_on_sigterm()
        refusals = (EngineError, ServerFailed)
        page = self.page if args.write else None
        return fill(page, [self.mark], lambda: {self.mark: self._measured(args)}, refusals=refusals)

    def _measured(self, args: argparse.Namespace) -> str:
        """The table, and how it came about. Raises EngineError, ServerFailed."""
        let_threads_sleep()
        sizes = self.smoke if args.smoke else Sizes(self.whole.num_outputs, self.whole.num_streams, args.rounds)
        conditions = current(0.0 if args.smoke else args.wait)
        run = self.prepare(args, sizes)
        before = Cores.now()
        table = run()
        after = Cores.now()
        sentences = (
            self.told(sizes),
            conditions.sentence(),
            f"Of all runs, {quiet(before.taken_by_others(after), 'meanwhile')}." if before and after else "",
            "Only a few tokens were run: no figure means anything." if args.smoke else "",
        )
        return f"{table}\n\n{' '.join(filter(None, sentences))}"
