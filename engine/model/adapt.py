"""What modules of `transformers` do in a way that a packed batch can't bear, and what we put in its place."""

from torch import nn

from engine.model.experts import replace_experts
from engine.model.grouped import GroupMaker
from engine.model.latent import keep_latents
from engine.model.tempered import temper_queries


def adapt(model: nn.Module, make_groups: GroupMaker) -> None:
    """Change a model whose linear layers are its own still; `make_groups` makes those that differ by group of rows."""
    replace_experts(model, make_groups)
    keep_latents(model, make_groups)
    temper_queries(model)
