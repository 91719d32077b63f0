"""Measure the cache: what it takes for each kind of model, what a hit saves, and what checkpoints cost.

    python -m benchmarks.bench_cache --model MODEL [--threads 2] [--write | --smoke]

Sizes are worked out from published configs. The two others run engines in this process: the model that is given, and
a random one with recurrent layers, which is made first.
"""

import argparse
import asyncio
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from benchmarks.conditions import ROOT, current, num_cores, quiet
from benchmarks.cores import Cores
from benchmarks.options import MAX_WAIT_SECONDS
from benchmarks.page import fill
from benchmarks.process import end_on_sigterm
from config.threads import let_threads_sleep
from engine.errors import EngineError

PAGE = ROOT / "docs" / "cache.md"
MARKS = ("room", "hits", "checkpoints")
MILLION = 1e6


@dataclass(frozen=True, slots=True)
class Extent:
    """How much is run."""

    length: int  # of a prompt
    num_outputs: int
    num_rounds: int  # of prompts with one beginning
    num_pairs: int  # of runs with checkpoints and without, from each load
    num_loads: int


WHOLE = Extent(length=1024, num_outputs=65, num_rounds=16, num_pairs=7, num_loads=3)
SMOKE = Extent(length=96, num_outputs=5, num_rounds=1, num_pairs=1, num_loads=1)


def parser() -> argparse.ArgumentParser:
    """The command line."""
    made = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--model", required=True, help="a folder or a .gguf file")
    made.add_argument("--threads", type=int, default=num_cores())
    made.add_argument("--wait", type=float, default=MAX_WAIT_SECONDS, help="seconds to wait for a quiet machine")
    output = made.add_mutually_exclusive_group()
    output.add_argument("--write", action="store_true", help="put the tables into docs/cache.md")
    output.add_argument("--smoke", action="store_true", help="little of everything, to see that it works")
    return made


def measured(args: argparse.Namespace) -> dict[str, str]:
    """What stands between each of the page's marks. Raises EngineError."""
    let_threads_sleep()
    # Imported here, once the threads know how to wait.
    from benchmarks.cache.published import published  # noqa: PLC0415
    from benchmarks.cache.room import room_text  # noqa: PLC0415

    conditions = current(0.0 if args.smoke else args.wait)
    before = Cores.now()
    hits, cost, about = asyncio.run(_timed(args))
    after = Cores.now()
    sentences = (
        conditions.sentence(),
        f"Of all runs, {quiet(before.taken_by_others(after), 'meanwhile')}." if before and after else "",
        f"{about} {args.threads} threads.",
        "Only a few tokens were run: no figure means anything." if args.smoke else "",
    )
    caption = " ".join(filter(None, sentences))
    return dict(zip(MARKS, (room_text(published()), hits, f"{cost}\n\n{caption}"), strict=True))


async def _timed(args: argparse.Namespace) -> tuple[str, str, str]:
    """What a hit saves, what checkpoints cost, and which models told it."""
    from benchmarks.cache import recurrent  # noqa: PLC0415  # see above
    from benchmarks.cache.checkpoints import cost_text, measure_cost  # noqa: PLC0415
    from benchmarks.cache.hits import hits_text, measure_hits  # noqa: PLC0415
    from benchmarks.cache.subject import make_engine  # noqa: PLC0415

    extent, shape = (SMOKE, recurrent.SMOKE) if args.smoke else (WHOLE, recurrent.WHOLE)
    with tempfile.TemporaryDirectory() as folder:
        count = recurrent.save_recurrent(Path(folder), shape, max_context=extent.length + extent.num_outputs)
        found = []
        for name, path in ((Path(args.model).stem, args.model), ("recurrent", folder)):
            engine = make_engine(path, num_threads=args.threads)
            found.append(await measure_hits(name, engine, length=extent.length, num_rounds=extent.num_rounds))
        cost = await measure_cost(
            folder,
            num_threads=args.threads,
            length=extent.length,
            num_outputs=extent.num_outputs,
            num_rounds=extent.num_pairs,
            num_loads=extent.num_loads,
        )
    about = f"`recurrent` is a random Falcon-H1 of {count / MILLION:.0f} million parameters in bfloat16."
    return hits_text(found), cost_text(cost), about


def main() -> int:
    """Measure and print; the exit code says whether it could be done."""
    args = parser().parse_args()
    end_on_sigterm()
    return fill(PAGE if args.write else None, MARKS, lambda: measured(args), refusals=(EngineError,))


if __name__ == "__main__":
    sys.exit(main())
