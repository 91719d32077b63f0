"""Measure structured output: the model's speed with a grammar, against its speed without.

    python -m benchmarks.bench_structure --model MODEL [--threads 2] [--rounds 5] [--write | --smoke]

One engine in this process answers the same requests with their grammar and without, by turns.
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

PAGE = ROOT / "docs" / "structured-output.md"
MARK = "structure"
NUM_OUTPUTS, NUM_STREAMS, NUM_ROUNDS = 200, 16, 5
SMOKE_OUTPUTS, SMOKE_STREAMS, SMOKE_ROUNDS = 10, 2, 1


def parser() -> argparse.ArgumentParser:
    """The command line."""
    made = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--model", required=True, help="a folder or a .gguf file")
    made.add_argument("--threads", type=int, default=num_cores())
    made.add_argument("--rounds", type=int, default=NUM_ROUNDS, metavar="N", help="runs of each request, of each kind")
    made.add_argument("--wait", type=float, default=MAX_WAIT_SECONDS, help="seconds to wait for a quiet machine")
    output = made.add_mutually_exclusive_group()
    output.add_argument("--write", action="store_true", help="put the table into docs/structured-output.md")
    output.add_argument("--smoke", action="store_true", help="a few tokens, to see that it works")
    return made


def measured(args: argparse.Namespace) -> str:
    """The table, and how it came about. Raises EngineError."""
    let_threads_sleep()
    # Imported here, once the threads know how to wait.
    from benchmarks.structure.measure import measure, structure_text  # noqa: PLC0415
    from engine.build import build  # noqa: PLC0415

    conditions = current(0.0 if args.smoke else args.wait)
    settings = Settings.model_validate({"model": {"path": args.model, "num_threads": args.threads}})
    sizes = (SMOKE_OUTPUTS, SMOKE_STREAMS, SMOKE_ROUNDS) if args.smoke else (NUM_OUTPUTS, NUM_STREAMS, args.rounds)
    built = build(settings, progress=lambda _: None)
    before = Cores.now()
    found = asyncio.run(measure(built, num_outputs=sizes[0], num_streams=sizes[1], num_rounds=sizes[2]))
    after = Cores.now()
    sentences = (
        f"Medians of {sizes[2]} runs each of {sizes[0]} tokens, without drafts but in the last column.",
        conditions.sentence(),
        f"Of all runs, {quiet(before.taken_by_others(after), 'meanwhile')}." if before and after else "",
        "Only a few tokens were run: no figure means anything." if args.smoke else "",
    )
    return f"{structure_text(found)}\n\n{' '.join(filter(None, sentences))}"


def main() -> int:
    """Measure and print; the exit code says whether it could be done."""
    args = parser().parse_args()
    end_on_sigterm()
    return fill(PAGE if args.write else None, [MARK], lambda: {MARK: measured(args)}, refusals=(EngineError,))


if __name__ == "__main__":
    sys.exit(main())
