"""A model behind our forward pass over a poisoned cache, fed part by part."""

from collections.abc import Sequence

import torch
from torch import Tensor
from transformers import PreTrainedModel

from engine.cache.layout import read_layout
from engine.cache.storage import KVStorage
from engine.model.forward import Forward
from engine.step import Chunk, Plan, Score, Ticket

Part = tuple[int, Sequence[int], Sequence[int]]  # start, tokens, block table


def make_forward(
    model: PreTrainedModel, *, num_blocks: int = 64, block_size: int = 8, max_rows: int = 256, num_threads: int = 1
) -> Forward:
    """Put our attention and linears into the model, over a cache that is all NaN."""
    group = read_layout(model.config, str(model.dtype).removeprefix("torch.")).groups[0]
    storage = KVStorage(group, num_blocks=num_blocks, block_size=block_size, device=torch.device("cpu"))
    storage.poison(range(num_blocks))
    with torch.inference_mode():
        return Forward(model, storage, max_rows=max_rows, num_threads=num_threads)


def run(forward: Forward, *parts: Part) -> list[Tensor]:
    """The logits [tokens, vocabulary] of each part, all in one batch."""
    chunks = []
    for start, tokens, blocks in parts:
        every = Score(start, (0,) * len(tokens), 0)  # asks for a row of logits at each position
        chunks.append(Chunk(Ticket("s", 0, 1, start, tuple(blocks)), tuple(tokens), score=every))
    with torch.inference_mode():
        logits = forward.run(Plan(1, tuple(chunks)))
    return list(logits.split([len(tokens) for _, tokens, _ in parts]))
