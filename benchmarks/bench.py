"""Measure `tidemark serve` with the workloads of benchmarks/load.py and print one table.

python -m benchmarks.bench --model MODEL [--scale 0.1] [--write] [-- --max-sequences 32]
"""

import sys

from benchmarks.conditions import current
from benchmarks.measure import measure
from benchmarks.options import caption, parser_of, report, tidemark
from benchmarks.process import end_on_sigterm
from benchmarks.table import table


def main() -> int:
    """Measure, print, and say by the exit code whether every request was answered."""
    args = parser_of(__doc__).parse_args()
    end_on_sigterm()
    conditions = current()
    run = measure(tidemark(args.model, args.flags), args.workloads, scale=args.scale)
    return report(args, conditions, [run], mark="figures", text=f"{table(run)}\n\n{caption(args, conditions)}")


if __name__ == "__main__":
    sys.exit(main())
