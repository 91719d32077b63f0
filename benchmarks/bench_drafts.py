"""Measure drafts: what guessed tokens save where they are right, and cost where they are wrong.

    python -m benchmarks.bench_drafts --model MODEL [--draft-model SMALL] [--threads 2] [--rounds 5] [--write | --smoke]

One engine in this process answers every request with drafts and without, by turns, and has to say the same.
"""

import argparse
import asyncio
import sys

from benchmarks.conditions import ROOT, current, num_cores, quiet
from benchmarks.cores import Cores
from benchmarks.options import MAX_WAIT_SECONDS
from benchmarks.page import fill
from benchmarks.process import end_on_sigterm
from config.settings import Settings
from config.threads import let_threads_sleep
from engine.errors import EngineError

PAGE = ROOT / "docs" / "drafts.md"
MARK = "drafts"
NUM_OUTPUTS, NUM_STREAMS, NUM_ROUNDS = 400, 16, 7
SMOKE_OUTPUTS, SMOKE_STREAMS, SMOKE_ROUNDS = 20, 2, 1


def parser() -> argparse.ArgumentParser:
    """The command line."""
    made = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--model", required=True, help="a folder or a .gguf file")
    made.add_argument("--draft-model", metavar="SMALL", help="a smaller model that guesses too, and a request for it")
    made.add_argument("--threads", type=int, default=num_cores())
    made.add_argument("--rounds", type=int, default=NUM_ROUNDS, metavar="N", help="runs of each request, of both kinds")
    made.add_argument("--wait", type=float, default=MAX_WAIT_SECONDS, help="seconds to wait for a quiet machine")
    output = made.add_mutually_exclusive_group()
    output.add_argument("--write", action="store_true", help="put the table into docs/drafts.md")
    output.add_argument("--smoke", action="store_true", help="a few tokens, to see that it works")
    return made


def measured(args: argparse.Namespace) -> str:
    """The table, and how it came about. Raises EngineError."""
    let_threads_sleep()
    # Imported here, once the threads know how to wait.
    from benchmarks.drafts.measure import drafts_text, measure  # noqa: PLC0415
    from engine.build import build  # noqa: PLC0415

    conditions = current(0.0 if args.smoke else args.wait)
    model = {"path": args.model, "draft_path": args.draft_model, "num_threads": args.threads}
    settings = Settings.model_validate({"model": model})
    sizes = (SMOKE_OUTPUTS, SMOKE_STREAMS, SMOKE_ROUNDS) if args.smoke else (NUM_OUTPUTS, NUM_STREAMS, args.rounds)
    built = build(settings, progress=lambda _: None)
    before = Cores.now()
    found = asyncio.run(measure(built, num_outputs=sizes[0], num_streams=sizes[1], num_rounds=sizes[2]))
    after = Cores.now()
    sentences = (
        f"Medians of {sizes[2]} runs each of {sizes[0]} tokens, in a crowd of half as many each.",
        conditions.sentence(),
        f"Of all runs, {quiet(before.taken_by_others(after), 'meanwhile')}." if before and after else "",
        "Only a few tokens were run: no figure means anything." if args.smoke else "",
    )
    return f"{drafts_text(found)}\n\n{' '.join(filter(None, sentences))}"


def main() -> int:
    """Measure and print; the exit code says whether it could be done."""
    args = parser().parse_args()
    end_on_sigterm()
    return fill(PAGE if args.write else None, [MARK], lambda: {MARK: measured(args)}, refusals=(EngineError,))


if __name__ == "__main__":
    sys.exit(main())
