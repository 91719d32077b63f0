"""The peers, by the names that they are asked for."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from benchmarks.measure import Contender
from benchmarks.peers import llama, openvino, transformers


@dataclass(frozen=True)
class Peer:
    """How a peer gets here, and what of it is measured for a model."""

    installed: Callable[[], bool]
    install: Callable[[], None]
    contenders: Callable[[str], Sequence[Contender]]


PEERS: Mapping[str, Peer] = {
    "llama": Peer(
        llama.installed, llama.install, lambda model: [llama.contender(model), llama.with_small_batches(model)]
    ),
    "openvino": Peer(openvino.installed, openvino.install, lambda model: [openvino.contender(model)]),
    "transformers": Peer(transformers.installed, transformers.install, lambda model: [transformers.contender(model)]),
}
USUAL = ("llama", "openvino")  # transformers serve takes longer than both together
