"""Measure what fewer bits cost a model, against float32 arithmetic on the same file, over real text.

    python -m benchmarks.bench_precision --model MODEL [--kernels avx2,avx512] [--text FILE] [--roundings]
        [--write | --smoke]

Each level of the kernels, each `--weights` and each `--cache-dtype` is loaded as the server loads it, all beside each
other, and says what follows each token of the text. With --roundings, other arithmetic is acted out on torch as well.
"""

import argparse
import hashlib
import shlex
import sys
from pathlib import Path

from benchmarks.conditions import ROOT, Conditions, current, num_cores
from benchmarks.page import fill
from benchmarks.precision.tables import tables
from benchmarks.precision.text import ORIGIN, TextTooShort, reference_text, windows
from benchmarks.precision.ways import LEVELS, NoKernels, levels_here
from benchmarks.process import end_on_sigterm
from config.threads import let_threads_sleep
from engine.errors import EngineError

PAGE = ROOT / "docs" / "precision.md"
NUM_WINDOWS, WINDOW = 10, 1024
SMOKE_WINDOWS, SMOKE_WINDOW = 1, 48


def parser() -> argparse.ArgumentParser:
    """The command line."""
    made = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--model", required=True, help="a folder or a .gguf file")
    made.add_argument("--kernels", type=names_of, metavar="A,B", help="of these levels; default: all that are here")
    made.add_argument("--text", type=Path, metavar="FILE", help=f"what to score; default: {ORIGIN}")
    made.add_argument("--windows", type=int, default=NUM_WINDOWS, metavar="N", help="runs of tokens, each on its own")
    made.add_argument("--window", type=int, default=WINDOW, metavar="N", help="tokens of each")
    made.add_argument("--roundings", action="store_true", help="round the inputs of linear layers too, on torch")
    made.add_argument("--threads", type=int, default=num_cores())
    output = made.add_mutually_exclusive_group()
    output.add_argument("--write", action="store_true", help="put the tables into docs/precision.md")
    output.add_argument("--smoke", action="store_true", help="a few tokens, to see that it works")
    return made


def names_of(text: str) -> list[str]:
    """Levels with commas between them."""
    names = text.split(",")
    if unknown := [name for name in names if name not in LEVELS]:
        raise argparse.ArgumentTypeError(f"no such level: {', '.join(unknown)}; there are {', '.join(LEVELS)}")
    return names


def measured(args: argparse.Namespace) -> str:
    """Tables, and how they came about. Raises NoKernels, TextTooShort, ModelError."""
    let_threads_sleep()
    # Imported here, once the threads know how to wait.
    from benchmarks.precision.measure import measure  # noqa: PLC0415
    from benchmarks.precision.rounding import ROUNDINGS  # noqa: PLC0415
    from engine.model.tokenizer import load_tokenizer  # noqa: PLC0415

    kernels, conditions = levels_here(args.kernels or LEVELS), current(0.0)
    text = args.text.read_text() if args.text else reference_text()
    tokenizer = load_tokenizer(args.model)
    ids = tokenizer.encode(text, add_special_tokens=False)
    lead = tokenizer.encode("", add_special_tokens=True)
    count, length = (SMOKE_WINDOWS, SMOKE_WINDOW) if args.smoke else (args.windows, args.window)
    texts = windows(ids, lead, count=count, length=length)
    roundings = ROUNDINGS if args.roundings else {}
    results = measure(args.model, kernels, roundings, texts, num_threads=args.threads)
    return f"{tables(results, kernels[-1])}\n\n{caption(args, conditions, text, results.reference.loss.num_tokens)}"


def caption(args: argparse.Namespace, conditions: Conditions, text: str, num_tokens: int) -> str:
    """What stands below the tables."""
    name = Path(args.model).name
    words = [Path(word).name if "/" in word else word for word in sys.argv[1:] if word != "--write"]
    digest = hashlib.sha256(text.encode()).hexdigest()[:12]
    sentences = (
        f"{name}; {num_tokens:,} predicted tokens of {args.text.name if args.text else ORIGIN}, SHA-256 {digest}…, in "
        f"runs of {args.window:,}.",
        conditions.sentence(),
        "Only a few tokens were scored: no figure means anything." if args.smoke else "",
        f"`python -m benchmarks.bench_precision {shlex.join(words)}`.",
    )
    return " ".join(filter(None, sentences))


def main() -> int:
    """Measure and print; the exit code says whether it could be done."""
    args = parser().parse_args()
    end_on_sigterm()
    mark, refusals = Path(args.model).stem, (EngineError, NoKernels, TextTooShort)
    return fill(PAGE if args.write else None, [mark], lambda: {mark: measured(args)}, refusals=refusals)


if __name__ == "__main__":
    sys.exit(main())
