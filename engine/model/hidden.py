"""What a model of `transformers` gives its head: the hidden states behind its last norm."""

from typing import Any

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from engine.step import Plan


class HiddenStates:
    """Those of the last batch that the model ran."""

    def __init__(self, model: PreTrainedModel) -> None:
        self._last = torch.empty(0)  # [1, padded rows, width]
        decoder_of(model).register_forward_hook(self._take)

    def of(self, plan: Plan) -> Tensor:
        """The rows [pooled rows, width] float32 that the plan pools; it was the one that was run."""
        return self._last[0, list(plan.pooled_rows)].float()

    def _take(self, _decoder: nn.Module, _args: tuple[Any, ...], output: Any) -> None:  # whatever class a model returns
        self._last = output.last_hidden_state


def decoder_of(model: PreTrainedModel) -> nn.Module:
    """The part that has the embeddings and all layers; the head is beside it."""
    embeddings = model.get_input_embeddings()
    return next(part for part in model.children() if any(module is embeddings for module in part.modules()))
