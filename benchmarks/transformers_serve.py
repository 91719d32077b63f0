"""Measure `tidemark serve`, then `transformers serve --continuous-batching`, in the same run and precision.

    python -m benchmarks.transformers_serve --model MODEL [--scale 0.5] [--write] [-- --max-sequences 32]

Both compute in float32 on the CPU, one after the other. The peer serves a copy of the model as
safetensors, made once below build/. A ratio above 1 says that Tidemark is better.
"""

import sys
from pathlib import Path

from benchmarks.conditions import current
from benchmarks.export import exported
from benchmarks.measure import Contender, measure
from benchmarks.options import caption, parser_of, report, tidemark
from benchmarks.process import HOST, end_on_sigterm
from benchmarks.table import comparison, verdict

PRECISION = ("--dtype", "float32")
TARGETED = ("W2", "W3", "W4", "W5")  # where Tidemark is to be no slower; in W1 its padded rows may cost it


def transformers_serve(folder: Path) -> Contender:
    """The peer. It lists, and answers to, the folder's path."""

    def command(port: int) -> list[str]:
        program = str(Path(sys.executable).with_name("transformers"))
        where = ("--host", HOST, "--port", str(port))
        how = ("--continuous-batching", "--device", "cpu", *PRECISION, "--log-level", "error")
        return [program, "serve", str(folder), *how, *where]

    return Contender("transformers serve", command, "/health", {})


def main() -> int:
    """Measure both, print the ratios, and say by the exit code whether every request was answered."""
    args = parser_of(__doc__).parse_args()
    end_on_sigterm()
    conditions = current()
    folder = exported(Path(args.model))
    ours = measure(tidemark(args.model, [*PRECISION, *args.flags]), args.workloads, scale=args.scale)
    theirs = measure(transformers_serve(folder), args.workloads, scale=args.scale)
    targeted = [workload for workload in TARGETED if workload in args.workloads]
    text = "\n\n".join((comparison(ours, theirs), verdict(ours, theirs, targeted) + ".", caption(args, conditions)))
    return report(args, conditions, [ours, theirs], mark="peer", text=text)


if __name__ == "__main__":
    sys.exit(main())
