"""Measure structured output: the model's speed with a grammar, against its speed without.

    python -m benchmarks.bench_structure --model MODEL [--threads 2] [--rounds 5] [--write | --smoke]

One engine in this process answers the same requests with their grammar and without, by turns.
"""

import argparse
import asyncio
import sys

from benchmarks.conditions import ROOT
from benchmarks.turns import Comparison, Prepared, Sizes
from config.settings import Settings


def told(sizes: Sizes) -> str:
    """How the figures came about."""
    return (
        f"Medians of {sizes.num_rounds} runs each of {sizes.num_outputs} tokens, without drafts but in the last column."
    )


def prepare(args: argparse.Namespace, sizes: Sizes) -> Prepared:
    """Load the model."""
    # Imported here, once the threads know how to wait.
    from benchmarks.structure.measure import measure, structure_text  # noqa: PLC0415
    from engine.build import build  # noqa: PLC0415

    settings = Settings.model_validate({"model": {"path": args.model, "num_threads": args.threads}})
    built = build(settings, progress=lambda _: None)
    counts = {"num_outputs": sizes.num_outputs, "num_streams": sizes.num_streams, "num_rounds": sizes.num_rounds}
    return lambda: structure_text(asyncio.run(measure(built, **counts)))


COMPARISON = Comparison(
    ROOT / "docs" / "structured-output.md", "structure", Sizes(200, 16, 5), Sizes(10, 2, 1), told, prepare
)

if __name__ == "__main__":
    sys.exit(COMPARISON.main(COMPARISON.parser(__doc__)))
