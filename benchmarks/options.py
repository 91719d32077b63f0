"""What both benchmarks take from the command line and do with what they measured."""

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks.conditions import ROOT, Conditions
from benchmarks.load import WORKLOADS
from benchmarks.measure import Contender, Run
from benchmarks.process import HOST
from benchmarks.table import put_between

README = ROOT / "README.md"


def parser_of(description: str | None) -> argparse.ArgumentParser:
    """A parser with the flags that both have; `flags` are those for `tidemark serve`."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("--model", required=True, help="a folder or a .gguf file")
    parser.add_argument("--workloads", nargs="+", choices=WORKLOADS, default=list(WORKLOADS), metavar="W")
    parser.add_argument("--scale", type=float, default=1.0, help="share of the requests in W2, W3, W4")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write everything that was measured")
    parser.add_argument("--write", action="store_true", help="put the table into README.md")
    parser.add_argument("flags", nargs="*", help="after --: flags for tidemark serve")
    return parser


def tidemark(model: str, flags: Sequence[str]) -> Contender:
    """This tree's server."""

    def command(port: int) -> list[str]:
        return [sys.executable, "-m", "server", "serve", model, "--host", HOST, "--port", str(port), *flags]

    return Contender("Tidemark", command, "/ready", {"ignore_eos": True})


def report(args: argparse.Namespace, conditions: Conditions, runs: Sequence[Run], *, mark: str, text: str) -> int:
    """Print and keep the result; the exit code tells whether every request was answered."""
    print(text)
    if args.json:
        asked = {"model": args.model, "flags": args.flags, "scale": args.scale}
        values = {"conditions": conditions.values(), **asked, "runs": [run.values() for run in runs]}
        args.json.write_text(json.dumps(values, indent=2) + "\n")
    errors = [error for run in runs for error in run.errors()]
    print(*errors, sep="\n", end="\n" if errors else "", file=sys.stderr)
    if args.write and not errors:
        README.write_text(put_between(README.read_text(), mark, text))
    return 1 if errors else 0


def caption(args: argparse.Namespace, conditions: Conditions) -> str:
    """What stands below a table."""
    scaled = "" if args.scale == 1 else f" W2, W3 and W4 had {args.scale:g} of their requests."
    flags = f" Flags: `{' '.join(args.flags)}`." if args.flags else ""
    return f"{Path(args.model).name}; {conditions.sentence()}{scaled}{flags}"
