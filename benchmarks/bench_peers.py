"""Measure `tidemark serve` and its peers in one run, one after the other, and say which targets are met.

    python -m benchmarks.bench_peers --model MODEL.gguf [--peers llama,openvino,transformers] [--scale 0.5]
        [--only W1,W3] [--repeat 3] [--write] [-- --max-sequences 32]

llama.cpp's server and OpenVINO GenAI read the same file; the first run builds the one and installs the other below
.peers/. transformers serve computes in float32, from a copy of the model as safetensors.
"""

import argparse
import sys

from benchmarks.measure import Contender
from benchmarks.options import caption, conditions_of, measured, parser_of, report, tidemark
from benchmarks.peers.catalogue import PEERS, USUAL
from benchmarks.peers.place import PeerMissing
from benchmarks.process import end_on_sigterm
from benchmarks.table import table
from benchmarks.targets import judgement


def peers_of(text: str) -> list[str]:
    """Names with commas between them; none at all for an empty text."""
    names = list(filter(None, text.split(",")))
    if unknown := [name for name in names if name not in PEERS]:
        raise argparse.ArgumentTypeError(f"no such peer: {', '.join(unknown)}; there are {', '.join(PEERS)}")
    return names


def contenders_of(args: argparse.Namespace) -> list[Contender]:
    """Tidemark and the peers that were asked for, installed where they are not.

    Raises:
        PeerMissing: where one is not there and can't be installed.
    """
    peers = [PEERS[name] for name in args.peers]
    for peer in peers:
        if not peer.installed():
            peer.install()
    ours = [] if args.peers_alone else [tidemark(args)]
    return [*ours, *(contender for peer in peers for contender in peer.contenders(args.model))]


def main() -> int:
    """Measure, print, and say by the exit code whether every request was answered."""
    parser = parser_of(__doc__)
    parser.add_argument("--peers", type=peers_of, default=list(USUAL), metavar="P,Q", help=f"of {', '.join(PEERS)}")
    parser.add_argument("--peers-alone", action="store_true", help="leave Tidemark out")
    args = parser.parse_args()
    end_on_sigterm()
    try:
        contenders = contenders_of(args)
    except PeerMissing as missing:
        parser.exit(1, f"{missing}\n")
    conditions = conditions_of(args)
    columns = measured(args, contenders)
    text = "\n\n".join((table(columns), judgement(columns), caption(args, conditions, contenders, columns)))
    return report(args, conditions, columns, mark="peers", text=text)


if __name__ == "__main__":
    sys.exit(main())
