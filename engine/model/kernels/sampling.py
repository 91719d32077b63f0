"""The native sampler: tokens and log-probabilities from rows of logits, without a sort."""

import ctypes
from array import array
from collections.abc import Sequence

import torch
from torch import Tensor

from engine.model.asks import Answer, Ask, or_allowed, uniform
from engine.model.kernels.native import Level, Library, NativeAsk, NativeBias, NativeLogits
from engine.request import TokenLogprob
from engine.step import Choose


class NativeSampler:
    """Implements `asks.Sampler` on the threads of one pool of `library`."""

    def __init__(self, library: Library, pool: int, level: Level) -> None:
        self._library = library
        self._pool = pool
        self._level = level

    def __call__(self, logits: Tensor, asks: Sequence[Ask]) -> list[Answer | None]:
        """Answer one ask for each row of `logits`, which it changes meanwhile and puts back."""
        assert logits.dtype is torch.float32, "the kernels read float32"
        assert logits.stride(-1) == 1, "the logits of a row lie side by side"
        num_rows, vocabulary_size = logits.shape
        rows = (NativeAsk * num_rows)()
        kept = [_fill(row, ask, vocabulary_size) for row, ask in zip(rows, asks, strict=True)]
        shape = NativeLogits(logits.data_ptr(), logits.stride(0), vocabulary_size, num_rows)
        self._library.answer(self._pool, self._level, shape, rows)
        return [_answer(row, ask, memory, vocabulary_size) for row, ask, memory in zip(rows, asks, kept, strict=True)]


class _Memory:
    """What one native ask points to."""

    def __init__(self, num_top: int) -> None:
        self.ids = array("i", bytes(4 * num_top))
        self.logprobs = array("f", bytes(4 * num_top))
        self.kept: list[object] = []

    def ids_of(self, tokens: Sequence[int]) -> int:
        """Where `tokens` lie as int32."""
        values = array("i", tokens)
        self.kept.append(values)
        return values.buffer_info()[0]


def _fill(row: NativeAsk, ask: Ask, vocabulary_size: int) -> _Memory:
    """Say natively what is asked of a row; the memory must outlive the call."""
    num_top = min(ask.num_top or 0, vocabulary_size)
    memory = _Memory(num_top)
    row.scores, row.num_top = ask.num_top is not None, num_top
    row.top_ids, row.top_logprobs = memory.ids.buffer_info()[0], memory.logprobs.buffer_info()[0]
    if ask.choose is None:
        row.token = ask.target
    else:
        _fill_choice(row, ask.choose, memory)
        if ask.mask is not None:
            assert 8 * len(ask.mask) >= vocabulary_size, "a mask has a bit for each token"
            row.mask, row.num_banned = ask.mask, 0
    return memory


def _fill_choice(row: NativeAsk, choose: Choose, memory: _Memory) -> None:
    sampling = choose.sampling
    row.chooses, row.temperature = 1, sampling.temperature
    if not sampling.greedy:
        row.top_p, row.min_p, row.top_k = sampling.top_p, sampling.min_p, sampling.top_k or 0
        row.number = uniform(sampling.seed, choose.choice, choose.output_index)
    if choose.banned:
        row.num_banned, row.banned = len(choose.banned), memory.ids_of(choose.banned)
    if sampling.logit_bias:
        biases = (NativeBias * len(sampling.logit_bias))(*(NativeBias(*entry) for entry in sampling.logit_bias))
        memory.kept.append(biases)
        row.num_biases, row.biases = len(biases), ctypes.addressof(biases)
    if sampling.penalizes:
        row.repetition, row.presence = sampling.repetition_penalty, sampling.presence_penalty
        row.frequency = sampling.frequency_penalty
        row.num_prompt, row.prompt = len(choose.prompt), memory.ids_of(choose.prompt)
        row.num_outputs, row.outputs = len(choose.outputs), memory.ids_of(choose.outputs)


def _answer(row: NativeAsk, ask: Ask, memory: _Memory, vocabulary_size: int) -> Answer | None:
    if not row.finite:
        return None
    token = row.token if ask.choose is None else or_allowed(row.token, ask, vocabulary_size)
    if ask.num_top is None:
        return Answer(token)
    return Answer(token, TokenLogprob(token, row.logprob, tuple(zip(memory.ids, memory.logprobs, strict=True))))
