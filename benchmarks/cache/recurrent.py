"""A random model with recurrent layers, saved as the server loads it: half attention, half Mamba-2, in every layer."""

from dataclasses import dataclass
from pathlib import Path

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import AutoModelForCausalLM, FalconH1Config, PreTrainedTokenizerFast

HEAD_DIM = 64
END = "<end>"


@dataclass(frozen=True, slots=True)
class Shape:
    """How large the model is; its parts stand to each other as in Falcon-H1 0.5B."""

    hidden: int
    num_layers: int
    num_states: int
    vocabulary: int


WHOLE = Shape(hidden=768, num_layers=8, num_states=128, vocabulary=8192)
SMOKE = Shape(hidden=128, num_layers=2, num_states=16, vocabulary=512)


def save_recurrent(folder: Path, shape: Shape, *, max_context: int) -> int:
    """Save model and tokenizer; the number of parameters."""
    _save_tokenizer(folder)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = AutoModelForCausalLM.from_config(_config(shape, max_context), dtype=torch.bfloat16)
    model.save_pretrained(folder)
    return sum(parameter.numel() for parameter in model.parameters())


def _config(shape: Shape, max_context: int) -> FalconH1Config:
    inner = shape.hidden * 3 // 2
    return FalconH1Config(
        vocab_size=shape.vocabulary,
        hidden_size=shape.hidden,
        intermediate_size=2 * shape.hidden,
        num_hidden_layers=shape.num_layers,
        num_attention_heads=shape.hidden // HEAD_DIM,
        num_key_value_heads=2,
        mamba_d_ssm=inner,
        mamba_n_heads=inner // HEAD_DIM,
        mamba_d_head=HEAD_DIM,
        mamba_d_state=shape.num_states,
        mamba_n_groups=1,
        mamba_rms_norm=False,
        max_position_embeddings=max_context,
        tie_word_embeddings=True,
        bos_token_id=0,
        eos_token_id=0,
        pad_token_id=0,
    )


def _save_tokenizer(folder: Path) -> None:
    """Bytes as tokens: a model needs a tokenizer, and nothing here has text."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    backend = Tokenizer(models.BPE(vocab={token: id_ for id_, token in enumerate([END, *alphabet])}, merges=[]))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    backend.add_special_tokens([END])
    PreTrainedTokenizerFast(tokenizer_object=backend, bos_token=END, eos_token=END).save_pretrained(folder)
