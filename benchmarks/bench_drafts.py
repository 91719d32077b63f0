"""Measure drafts: what guessed tokens save where they are right, and cost where they are wrong.

    python -m benchmarks.bench_drafts --model MODEL [--draft-model SMALL] [--threads 2] [--rounds 5] [--write | --smoke]

One engine in this process answers every request with drafts and without, by turns, and has to say the same.
"""

import argparse
import asyncio
import sys

from benchmarks.conditions import ROOT
from benchmarks.turns import Comparison, Prepared, Sizes
from config.settings import Settings


def told(sizes: Sizes) -> str:
    """How the figures came about."""
    return f"Medians of {sizes.num_rounds} runs each of {sizes.num_outputs} tokens, in a crowd of half as many each."


def prepare(args: argparse.Namespace, sizes: Sizes) -> Prepared:
    """Load the models."""
    # Imported here, once the threads know how to wait.
    from benchmarks.drafts.measure import drafts_text, measure  # noqa: PLC0415
    from engine.build import build  # noqa: PLC0415

    model = {"path": args.model, "draft_path": args.draft_model, "num_threads": args.threads}
    built = build(Settings.model_validate({"model": model}), progress=lambda _: None)
    counts = {"num_outputs": sizes.num_outputs, "num_streams": sizes.num_streams, "num_rounds": sizes.num_rounds}
    return lambda: drafts_text(asyncio.run(measure(built, **counts)))


COMPARISON = Comparison(ROOT / "docs" / "drafts.md", "drafts", Sizes(400, 16, 7), Sizes(20, 2, 1), told, prepare)


def parser() -> argparse.ArgumentParser:
    """The command line."""
    made = COMPARISON.parser(__doc__)
    made.add_argument("--draft-model", metavar="SMALL", help="a smaller model that guesses too, and a request for it")
    return made


if __name__ == "__main__":
    sys.exit(COMPARISON.main(parser()))
