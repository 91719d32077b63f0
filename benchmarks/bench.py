"""Measure `tidemark serve` with the workloads of benchmarks/load.py and print one table.

python -m benchmarks.bench --model MODEL [--scale 0.1] [--only W1,W3] [--repeat 3] [--write] [-- --max-sequences 32]
"""

import sys

from benchmarks.options import caption, conditions_of, measured, parser_of, report, tidemark
from benchmarks.process import end_on_sigterm
from benchmarks.table import table


def main() -> int:
    """Measure, print, and say by the exit code whether every request was answered."""
    args = parser_of(__doc__).parse_args()
    end_on_sigterm()
    conditions = conditions_of(args)
    contenders = [tidemark(args)]
    columns = measured(args, contenders)
    text = f"{table(columns)}\n\n{caption(args, conditions, contenders, columns)}"
    return report(args, conditions, columns, mark="figures", text=text)


if __name__ == "__main__":
    sys.exit(main())
