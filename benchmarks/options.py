"""What the benchmarks of servers take from the command line, and what they do with what they measured."""

import argparse
import json
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from benchmarks.conditions import ROOT, Conditions, current, quiet
from benchmarks.load import WORKLOADS, Size
from benchmarks.measure import Contender, measure, over_http
from benchmarks.process import HOST
from benchmarks.table import Column, put_between
from benchmarks.targets import TIDEMARK
from config.settings import CacheSettings

README = ROOT / "README.md"
NUM_POSITIONS = 40960  # that Tidemark's cache holds, as many as the peers'
MAX_WAIT_SECONDS = 120.0  # for a quiet machine
SMOKE = Size(requests=0.0, tokens=1 / 32)  # a few seconds, to see that everything works
CACHE_FLAGS = ("--num-blocks", "--cache-memory", "--block-size")


def parser_of(description: str | None) -> argparse.ArgumentParser:
    """A parser with the flags that all have; `flags` are those for `tidemark serve`."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("--model", required=True, help="a folder or a .gguf file")
    parser.add_argument("--only", type=workloads_of, default=list(WORKLOADS), metavar="W1,W3", help="these workloads")
    parser.add_argument("--scale", type=float, default=1.0, help="share of the requests in W2, W3, W4")
    parser.add_argument("--repeat", type=int, default=1, metavar="N", help="measure all of it so often, in turns")
    parser.add_argument("--wait", type=float, default=MAX_WAIT_SECONDS, help="seconds to wait for a quiet machine")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write everything that was measured")
    output = parser.add_mutually_exclusive_group()
    output.add_argument("--write", action="store_true", help="put the table into README.md")
    output.add_argument("--smoke", action="store_true", help="a few tokens of each workload, to see that it works")
    parser.add_argument("flags", nargs="*", help="after --: flags for tidemark serve")
    return parser


def workloads_of(text: str) -> list[str]:
    """Names with commas between them."""
    names = text.upper().split(",")
    if unknown := [name for name in names if name not in WORKLOADS]:
        raise argparse.ArgumentTypeError(f"no such workload: {', '.join(unknown)}; there are {', '.join(WORKLOADS)}")
    return names


def size_of(args: argparse.Namespace) -> Size:
    """How much of each workload was asked for."""
    return SMOKE if args.smoke else Size(requests=args.scale)


def tidemark(args: argparse.Namespace) -> Contender:
    """This tree's server, its cache as large as the peers' unless the flags say another size."""
    sized = any(flag.partition("=")[0] in CACHE_FLAGS for flag in args.flags)
    room = () if sized else ("--num-blocks", str(NUM_POSITIONS // CacheSettings().block_size))
    flags = (*room, *args.flags)

    def command(port: int) -> list[str]:
        return [sys.executable, "-m", "server", "serve", args.model, "--host", HOST, "--port", str(port), *flags]

    about = f"`{' '.join(flags)}`, requests with `ignore_eos`"
    return Contender(TIDEMARK, about, over_http(command, "/ready", {"ignore_eos": True}))


def conditions_of(args: argparse.Namespace) -> Conditions:
    """The conditions once the machine is quiet, or the wait is over."""
    return current(0.0 if args.smoke else args.wait)


def measured(args: argparse.Namespace, contenders: Sequence[Contender]) -> list[Column]:
    """Measure the contenders in turns, so that all meet the same weather."""
    rounds = [[measure(contender, args.only, size_of(args)) for contender in contenders] for _ in range(args.repeat)]
    return [Column(contender.name, runs) for contender, *runs in zip(contenders, *rounds, strict=True)]


def report(args: argparse.Namespace, conditions: Conditions, columns: Sequence[Column], *, mark: str, text: str) -> int:
    """Print and keep the result; the exit code tells whether every request was answered."""
    print(text)
    runs = [run for column in columns for run in column.runs]
    if args.json:
        asked = {"model": args.model, "flags": args.flags, "scale": args.scale}
        values = {"conditions": conditions.values(), **asked, "runs": [run.values() for run in runs]}
        args.json.write_text(json.dumps(values, indent=2) + "\n")
    errors = [error for run in runs for error in run.errors()]
    print(*errors, sep="\n", end="\n" if errors else "", file=sys.stderr)
    if args.write and not errors:
        write(mark, text)
    return 1 if errors else 0


def write(mark: str, text: str) -> None:
    """Put the text between its marks in README.md."""
    README.write_text(put_between(README.read_text(), mark, text))


def caption(
    args: argparse.Namespace, conditions: Conditions, contenders: Iterable[Contender], columns: Iterable[Column]
) -> str:
    """What stands below a table."""
    shares = [run.others_share for column in columns for run in column.runs if run.others_share is not None]
    sentences = (
        f"{Path(args.model).name}; {conditions.sentence()}",
        f"Of all runs, {quiet(max(shares), 'meanwhile')}." if shares else "",
        f"Medians of {args.repeat} runs, with the least and the most." if args.repeat > 1 else "",
        f"W2, W3 and W4 had {args.scale:g} of their requests." if args.scale != 1 else "",
        "Only a few tokens of each workload were run: no figure means anything." if args.smoke else "",
        *(f"{contender.name}: {contender.about}." for contender in contenders),
    )
    return " ".join(filter(None, sentences))
