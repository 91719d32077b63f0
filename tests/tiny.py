"""Tiny loadable folders for tests: a byte-level tokenizer, and a random Llama that speaks it."""

import re
from pathlib import Path

import torch
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

SPECIAL_TOKENS = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
ENDOFTEXT, IM_START, IM_END = range(3)
NUM_TOKENS = 300  # ids that the tokenizer knows: the special ones, the bytes, the merges
VOCABULARY_SIZE = 304  # the model's, padded as real models' are
MAX_CONTEXT = 512

CHAT_TEMPLATE = (
    "{% for message in messages %}"
    "{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>\n' }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)

_MERGES = """
h e|i n|r e|o n|e r|a t|a n|o r|e n|o u|i s|i t|a l|e s|a r|s t|l l|t o|Ġ t|Ġ a|Ġ s|Ġ w|Ġ o|Ġ c|Ġ b|Ġ f|Ġ p|Ġ m|Ġ d
Ġt he|in g|Ġa n|Ġan d|Ġt o|Ġ in|Ġo f|Ġ is|l o|he ll|hell o|u s
"""  # one a bar or line, best first


def make_tiny_tokenizer(folder: Path) -> None:
    """Save a byte-level BPE of 300 tokens with ChatML's template; ids 0 to 2 are the special tokens."""
    merges = [(left, right) for left, right in (merge.split(" ") for merge in re.split(r"[|\n]", _MERGES.strip()))]
    tokens = [*SPECIAL_TOKENS, *sorted(pre_tokenizers.ByteLevel.alphabet()), *(a + b for a, b in merges)]
    assert len(tokens) == NUM_TOKENS, len(tokens)
    backend = Tokenizer(models.BPE(vocab={token: id for id, token in enumerate(tokens)}, merges=merges))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    backend.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in SPECIAL_TOKENS])
    PreTrainedTokenizerFast(
        tokenizer_object=backend,
        bos_token="<|im_start|>",
        eos_token="<|im_end|>",
        unk_token="<|endoftext|>",
        chat_template=CHAT_TEMPLATE,
    ).save_pretrained(folder)


def make_tiny_model_folder(folder: Path, *, seed: int = 0) -> None:
    """Save a two-layer random float32 Llama and `make_tiny_tokenizer`'s tokenizer; the context is 512."""
    make_tiny_tokenizer(folder)
    config = LlamaConfig(
        vocab_size=VOCABULARY_SIZE,
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=MAX_CONTEXT,
        dtype="float32",
        initializer_range=0.3,  # wide enough that the largest logit stands out and outputs vary
        bos_token_id=IM_START,
        eos_token_id=IM_END,
        pad_token_id=IM_END,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = LlamaForCausalLM(config)
    model.save_pretrained(folder)
