"""Measure what watching costs: streams while somebody watches them, against the same streams alone.

    python -m benchmarks.bench_watch --model MODEL [--threads 2] [--rounds 40] [--write | --smoke]

One server answers the same requests alone, and while the page's stream is read and parsed five times a second and
/metrics is scraped each second, by turns; some four minutes with the default model on two quiet cores.

Rates vary with the machine by more than watching costs. What answers is the processor time of the event loop's thread
for each token: all of watching is done there, and the streams wait for nothing else of it. That of all threads says
less, since those of the step are busy while they wait for each other.
"""

import argparse
import asyncio
import sys
from collections.abc import Sequence

from benchmarks.conditions import ROOT
from benchmarks.process import serving
from benchmarks.turns import Comparison, Prepared, Sizes
from benchmarks.watching.measure import measure
from benchmarks.watching.table import watching_text

NAME = "watched"


def told(sizes: Sizes) -> str:
    """How the figures came about."""
    return (
        f"{sizes.num_rounds} pairs of rounds of {sizes.num_streams} streams of {sizes.num_outputs} tokens each, "
        "without drafts: one alone, and one watched beside it."
    )


def prepare(args: argparse.Namespace, sizes: Sizes) -> Prepared:
    """Nothing before the server starts: its processor time is ours only once it has ended."""

    def command(port: int) -> Sequence[str]:
        flags = ("--port", str(port), "--served-model-name", NAME, "--num-threads", str(args.threads))
        return [
            sys.executable,
            "-m",
            "benchmarks.watching.served",
            "serve",
            args.model,
            *flags,
            "--log-level",
            "warning",
        ]

    def run() -> str:
        with serving(NAME, command) as server:
            server.wait_until("/ready")
            found = asyncio.run(measure(server.port, NAME, sizes))
        return watching_text(found)

    return run


COMPARISON = Comparison(ROOT / "docs" / "top.md", "watching", Sizes(96, 16, 40), Sizes(4, 2, 2), told, prepare)

if __name__ == "__main__":
    sys.exit(COMPARISON.main(COMPARISON.parser(__doc__)))
