"""What a model's structure must show before it is served.

A small random model of the same class and options answers for two sequences through our forward
pass: packed together, alone, in chunks and token by token. All answers must be the same bits, and
equal to plain `transformers` but for rounding. What leaks from one sequence into another, looks at
the longest position of the batch, or goes past our attention, shows itself here.
"""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import accumulate

import torch
from torch import Tensor
from transformers import AutoModelForCausalLM, PreTrainedConfig, PreTrainedModel

from engine.cache.layout import read_layout
from engine.cache.storage import KVStorage
from engine.errors import ModelUnsupported
from engine.model.batch import make_batch
from engine.model.forward import Forward
from engine.model.load import quiet_libraries
from engine.model.rotary import freeze_rotary
from engine.model.shrink import CONTEXT, shrink_config
from engine.step import Chunk, Plan, Score, Ticket

LENGTHS = (150, 40)  # past the windows, the rotary thresholds and one split of the context
CHUNKS = (37, 1, 90, 1, 21)  # of the first sequence
BLOCK_SIZE = 8
TOLERANCE = 1e-4  # of the largest logit, in float32


def check_structure(config: PreTrainedConfig) -> None:
    """Raise ModelUnsupported, with the reason, unless a small copy of the model passes."""
    with ThreadPoolExecutor(1, thread_name_prefix="gate") as thread:  # settings of torch's threads stay its own
        try:
            reason = thread.submit(_find_fault, config).result()
        except ModelUnsupported:
            raise
        except Exception as error:  # whatever a model's code raises on a batch that it does not expect
            raise ModelUnsupported(
                f"{config.model_type} can't be served: a small copy failed with {error!r}"
            ) from error
    if reason is not None:
        raise ModelUnsupported(f"{config.model_type} can't be served: {reason}")


@torch.inference_mode()
@quiet_libraries()
def _find_fault(config: PreTrainedConfig) -> str | None:
    small = shrink_config(config)
    model = _random_model(small)
    sequences = _random_sequences(small.vocab_size)
    expected = [_plain_logits(model, tokens) for tokens in sequences]
    trial = _Trial(model, small)
    alone = [trial.run(_Part(which, 0, tokens)) for which, tokens in enumerate(sequences)]
    calls = trial.forward.attention.calls
    if calls != [len(sequences)] * len(calls):
        return f"in {len(sequences)} passes its layers called our attention {calls} times"
    for ours, plain in zip(alone, expected, strict=True):
        if (ours - plain).abs().max() > TOLERANCE * plain.abs().max():
            return f"its logits differ from plain attention's by up to {(ours - plain).abs().max():.2g}"
    if not torch.equal(
        trial.run(*(_Part(which, 0, tokens) for which, tokens in enumerate(sequences))), torch.cat(alone)
    ):
        return "two sequences in one batch change each other's logits"
    if not torch.equal(trial.run_in_chunks(sequences[0]), alone[0]):
        return "its logits depend on how a prompt is cut into chunks"
    return None


@dataclass(frozen=True, slots=True)
class _Part:
    """Some tokens of one of the sequences, from position `start` on."""

    which: int
    start: int
    tokens: list[int]


class _Trial:
    """The small model behind our forward pass, over a cache that is NaN where nothing was written."""

    def __init__(self, model: PreTrainedModel, config: PreTrainedConfig) -> None:
        num_blocks = [-(-length // BLOCK_SIZE) for length in LENGTHS]
        blocks = tuple(reversed(range(sum(num_blocks))))  # no table is in its natural order
        self.tables = (blocks[: num_blocks[0]], blocks[num_blocks[0] :])
        group = read_layout(config, "float32").groups[0]
        storage = KVStorage(group, num_blocks=len(blocks), block_size=BLOCK_SIZE, device=torch.device("cpu"))
        storage.poison(blocks)
        self.forward = Forward(model, storage, max_rows=sum(LENGTHS), num_threads=1)

    def run(self, *parts: _Part) -> Tensor:
        """The logits of every token of the parts, in one batch."""
        chunks = []
        for part in parts:
            ticket = Ticket(str(part.which), 0, 1, part.start, self.tables[part.which])
            score = Score(part.start, (0,) * len(part.tokens), 0)  # which asks for a row of logits at each position
            chunks.append(Chunk(ticket, tuple(part.tokens), score=score))
        return self.forward.run(make_batch(Plan(1, tuple(chunks)), self.forward.paddings))

    def run_in_chunks(self, tokens: list[int]) -> Tensor:
        """The logits of the first sequence, computed chunk by chunk."""
        ends = list(accumulate(CHUNKS))
        return torch.cat(
            [self.run(_Part(0, end - n, tokens[end - n : end])) for n, end in zip(CHUNKS, ends, strict=True)]
        )


def _random_model(config: PreTrainedConfig) -> PreTrainedModel:
    """Random in every parameter: those that begin as zeros or ones would hide what they do."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = AutoModelForCausalLM.from_config(config)
        assert isinstance(model, PreTrainedModel)
        for parameter in model.parameters():
            if parameter.ndim == 1:
                parameter.add_(torch.randn_like(parameter), alpha=0.1)
    freeze_rotary(model, CONTEXT)
    model.float().eval()
    return model


def _random_sequences(vocabulary_size: int) -> list[list[int]]:
    generator = torch.Generator().manual_seed(0)
    return [torch.randint(vocabulary_size, (length,), generator=generator).tolist() for length in LENGTHS]


def _plain_logits(model: PreTrainedModel, tokens: list[int]) -> Tensor:
    model.set_attn_implementation("eager")
    logits: Tensor = model(input_ids=torch.tensor([tokens]), use_cache=False).logits[0]
    return logits.float()
