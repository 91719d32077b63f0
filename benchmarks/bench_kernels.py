"""Measure the native kernels one by one, beside what the machine allows.

    python -m benchmarks.bench_kernels [--level avx2] [--threads 2] [--write] [--smoke]

What the machine allows is measured first: memory read by a small C program, from buffers as large as what a kernel
reads; its float32 multiply-adds; fbgemm's int8 product. A share is the time that these allow, over a kernel's own.
"""

import argparse
import sys
from collections.abc import Iterable, Sequence
from itertools import groupby

from benchmarks.conditions import current, num_cores
from benchmarks.kernels import ceilings
from benchmarks.kernels.ceilings import GIGA, OPERATIONS, NoCompiler, probe
from benchmarks.kernels.programs import Machine, WrongResult
from benchmarks.kernels.shares import SEVERAL, AttentionShare, Ceilings, Extent, LinearShare, attention, linears
from benchmarks.options import MAX_WAIT_SECONDS, write
from benchmarks.process import end_on_sigterm
from benchmarks.table import markdown, number
from engine.model.kernels.library import library
from engine.model.kernels.native import Level, Library

MODEL_BYTES = 97 << 20  # of the default model's weights: what a step reads
LARGE_BYTES = 1 << 30  # more than most caches hold
MICROSECONDS = 1e6
WHOLE = Extent(MODEL_BYTES, (1, 16, 32, 64, 256), (1, 8, 16, 32), (384, 2048), ceilings.WHOLE)
SMOKE = Extent(4 << 20, (1, 16), (2,), (64,), ceilings.SMOKE)


def parser() -> argparse.ArgumentParser:
    """The command line."""
    made = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--level", type=str.upper, choices=[level.name for level in Level], help="default: the best here")
    made.add_argument("--threads", type=int, default=num_cores())
    made.add_argument("--wait", type=float, default=MAX_WAIT_SECONDS, help="seconds to wait for a quiet machine")
    output = made.add_mutually_exclusive_group()
    output.add_argument("--write", action="store_true", help="put the tables into README.md")
    output.add_argument("--smoke", action="store_true", help="little of everything, to see that it works")
    return made


def level_of(native: Library, name: str | None) -> Level:
    """The level that was asked for, or the best.

    Raises:
        ValueError: where this CPU lacks it.
    """
    if name is None:
        return native.levels[-1]
    if Level[name] not in native.levels:
        raise ValueError(f"this CPU has no {name}, but {', '.join(level.name for level in native.levels)}")
    return Level[name]


def ceilings_table(found: Ceilings) -> str:
    """What the machine allows, with one thread and with all."""
    counts = sorted({1, found.num_threads})
    sizes = (found.extent.num_bytes, LARGE_BYTES if found.extent is WHOLE else found.extent.num_bytes * 2)
    rows = [
        (f"read {size >> 20:,} MiB, GB/s", *(number(found.read(size, count) / GIGA) for count in counts))
        for size in sizes
    ]
    adds = ("float32 multiply-adds, GFLOP/s", *(number(found.multiply_add(count) / GIGA) for count in counts))
    fbgemm = [
        (f"fbgemm's int8 product, {num_rows} rows, GFLOP/s", *("" for _ in counts[1:]), number(rate / GIGA))
        for num_rows, rate in ((rows, found.fbgemm(rows)) for rows in found.extent.rows if rows >= SEVERAL)
    ]
    return markdown(("", *(f"{count} thread{'s' * (count > 1)}" for count in counts)), [*rows, adds, *fbgemm])


def linears_table(shares: Iterable[LinearShare]) -> str:
    """A line for each matrix, a column for each number of rows."""
    lines = [list(line) for _, line in groupby(shares, lambda share: (share.outputs, share.inputs, share.storage))]
    head = [_rows_title(share.num_rows) for share in lines[0]]
    cells = [[_linear_cell(share) for share in line] for line in lines]
    titles = [f"{line[0].outputs} × {line[0].inputs}, {line[0].storage.name}" for line in lines]
    return markdown(("linear layer", *head), [(title, *line) for title, line in zip(titles, cells, strict=True)])


def _rows_title(num_rows: int) -> str:
    return "1 row, GB/s" if num_rows == 1 else f"{num_rows} rows, GFLOP/s"


def _linear_cell(share: LinearShare) -> str:
    operations = OPERATIONS * share.num_rows * share.outputs * share.inputs
    rate = (share.num_bytes if share.num_rows == 1 else operations) / share.seconds
    return f"{number(rate / GIGA)} ({share.share:.0%})"


def attention_table(shares: Iterable[AttentionShare]) -> str:
    """A line for each cache and context, a column for each number of sequences."""
    lines = [list(line) for _, line in groupby(shares, lambda share: (share.cache, share.context))]
    head = [f"{share.num_sequences} sequences" for share in lines[0]]
    rows = [
        (f"{line[0].cache}, context {line[0].context:,}", *(_attention_cell(share) for share in line)) for line in lines
    ]
    return markdown(("decode attention, a layer, µs (times the bandwidth's)", *head), rows)


def _attention_cell(share: AttentionShare) -> str:
    return f"{number(share.seconds * MICROSECONDS)} ({share.times:.2g} ×)"


def judgement(linear: Sequence[LinearShare], decoding: Sequence[AttentionShare]) -> str:
    """How many of the cases are near enough."""
    one = [share.met for share in linear if share.num_rows == 1]
    several = [share.met for share in linear if share.num_rows > 1]
    near = [share.met for share in decoding]
    return (
        f"Linear layers on one row at 85 % of the read bandwidth or more: {sum(one)} of {len(one)}; from 16 rows on at "
        f"75 % or more of what bandwidth and product allow: {sum(several)} of {len(several)}; decode attention within "
        f"1.5 times of what its cache's bytes take: {sum(near)} of {len(near)}."
    )


def measured(machine: Machine, args: argparse.Namespace) -> str:
    """All tables."""
    extent = SMOKE if args.smoke else WHOLE
    conditions = current(0.0 if args.smoke else args.wait)
    found = Ceilings(probe(extent.effort), args.threads, extent)
    top = ceilings_table(found)
    linear, decoding = list(linears(machine, found)), list(attention(machine, found))
    settings = f"{conditions.sentence()} Level {machine.level.name}, {args.threads} threads, the best of several runs."
    tables = (top, linears_table(linear), attention_table(decoding))
    return "\n\n".join((*tables, judgement(linear, decoding), settings))


def main() -> int:
    """Measure and print; the exit code says whether it could be done."""
    args = parser().parse_args()
    end_on_sigterm()
    native = library()
    if native is None:
        print("there is nothing to measure", file=sys.stderr)
        return 1
    try:
        machine = Machine(native, native.open_pool(args.threads), level_of(native, args.level))
        text = measured(machine, args)
    except (NoCompiler, WrongResult, ValueError) as error:
        print(error, file=sys.stderr)
        return 1
    print(text)
    if args.write:
        write("kernels", text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
