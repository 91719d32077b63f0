"""The native library's structures and calls, as program.h and api.cpp have them."""

import ctypes
from collections.abc import Sequence
from enum import IntEnum
from functools import cached_property
from pathlib import Path
from typing import TypeAlias

from engine.model.kernels.recurrent import Convolution, DeltaRule, Selection, StateStep
from engine.model.kernels.slab import Slab

Pointer: TypeAlias = ctypes.c_void_p
_int32, _int64, _float, _double = ctypes.c_int32, ctypes.c_int64, ctypes.c_float, ctypes.c_double


class Level(IntEnum):
    """What the kernels are compiled for; a model keeps one level for its life, since levels differ in bits."""

    AVX2 = 0
    AVX512 = 1
    AMX = 2


class Op(IntEnum):
    """What an instruction does."""

    EMBED = 0
    NORM = 1
    LINEAR = 2
    HEADS = 3
    ATTENTION = 4
    GATE = 5
    GATHER = 6
    SOFTCAP = 7
    ROUTE = 8
    EXPERTS = 9
    COMBINE = 10


class Format(IntEnum):
    """How a buffer's rows hold their values: float32, or two bfloat16 parts."""

    PLAIN = 0
    SPLIT = 1


class Kind(IntEnum):
    """How a matrix's values are stored."""

    F32 = 0
    F16 = 1
    BF16 = 2
    Q8 = 3
    Q4 = 4


class CacheType(IntEnum):
    """How the cache's values are stored."""

    F32 = 0
    BF16 = 1
    INT8 = 2


class NormKind(IntEnum):
    """Root mean square, layer norm, or the row as it is."""

    RMS = 0
    LAYER = 1
    NONE = 2


class Rotary(IntEnum):
    """Which values of a head are turned together: those half a head apart, or neighbours."""

    NONE = 0
    HALF = 1
    INTERLEAVED = 2


class Activation(IntEnum):
    """The function of a feed-forward layer."""

    SILU = 0
    GELU_TANH = 1
    GELU_ERF = 2
    RELU = 3
    RELU_SQUARED = 4
    CLAMPED_SWIGLU = 5


class Scoring(IntEnum):
    """How a router's scores become weights."""

    SOFTMAX = 0
    SOFTMAX_OF_CHOSEN = 1
    SIGMOID = 2


class Buffer(ctypes.Structure):
    """Rows of activations."""

    _fields_ = [("data", Pointer), ("stride_bytes", _int64), ("width", _int32), ("format", _int32)]


class Weight(ctypes.Structure):
    """A packed matrix."""

    _fields_ = [
        ("data", Pointer),
        ("panel_bytes", _int64),
        ("outputs", _int32),
        ("inputs", _int32),
        ("kind", _int32),
        ("block", _int32),
        ("has_min", _int32),
        ("reserved", _int32),
    ]


class Cache(ctypes.Structure):
    """One layer's K and V."""

    _fields_ = [
        ("keys", Pointer),
        ("values", Pointer),
        ("key_scales", Pointer),
        ("value_scales", Pointer),
        ("key_stride", _int64),
        ("value_stride", _int64),
        ("scale_stride", _int64),
        ("kv_heads", _int32),
        ("key_dim", _int32),
        ("value_dim", _int32),
        ("block_size", _int32),
        ("type", _int32),
        ("latent", _int32),
        ("table", _int32),
        ("reserved", _int32),
    ]


class Embed(ctypes.Structure):
    """Rows of a table."""

    _fields_ = [
        ("output", _int32),
        ("scale", _float),
        ("by_position", _int32),
        ("reserved", _int32),
        ("table", Weight),
    ]


class Norm(ctypes.Structure):
    """A norm over whole rows."""

    _fields_ = [
        ("input", _int32),
        ("output", _int32),
        ("kind", _int32),
        ("eps", _float),
        ("accumulate", _int32),
        ("scale", _float),
        ("weight", Pointer),
        ("bias", Pointer),
    ]


class Linear(ctypes.Structure):
    """A linear layer."""

    _fields_ = [
        ("input", _int32),
        ("output", _int32),
        ("accumulate", _int32),
        ("scale", _float),
        ("weight", Weight),
        ("bias", Pointer),
    ]


class Heads(ctypes.Structure):
    """From q, k and v to queries and the cache."""

    _fields_ = [
        ("input", _int32),
        ("output", _int32),
        ("heads", _int32),
        ("rotary", _int32),
        ("rotary_dim", _int32),
        ("norm_kind", _int32),
        ("eps", _float),
        ("scale", _float),
        ("norm_whole", _int32),
        ("num_angles", _int32),
        ("query_norm", Pointer),
        ("key_norm", Pointer),
        ("cos", Pointer),
        ("sin", Pointer),
        ("shared", _int32),
        ("reserved", _int32),
        ("cache", Cache),
    ]


class Attention(ctypes.Structure):
    """Attention over the cache."""

    _fields_ = [
        ("input", _int32),
        ("output", _int32),
        ("heads", _int32),
        ("window", _int32),
        ("chunk", _int32),
        ("softcap", _float),
        ("sinks", Pointer),
        ("cache", Cache),
    ]


class Gate(ctypes.Structure):
    """The activation of a feed-forward layer."""

    _fields_ = [
        ("input", _int32),
        ("output", _int32),
        ("activation", _int32),
        ("gated", _int32),
        ("per_row", _int32),
        ("alpha", _float),
        ("limit", _float),
    ]


class Gather(ctypes.Structure):
    """The rows that need logits."""

    _fields_ = [("input", _int32), ("output", _int32)]


class Softcap(ctypes.Structure):
    """The cap of the logits."""

    _fields_ = [("output", _int32), ("cap", _float)]


class Route(ctypes.Structure):
    """The choice of experts."""

    _fields_ = [
        ("input", _int32),
        ("experts", _int32),
        ("chosen", _int32),
        ("scoring", _int32),
        ("normalize", _int32),
        ("scale", _float),
    ]


class Experts(ctypes.Structure):
    """One linear layer of all experts."""

    _fields_ = [
        ("input", _int32),
        ("output", _int32),
        ("experts", _int32),
        ("chosen", _int32),
        ("expand", _int32),
        ("reserved", _int32),
        ("weights", Pointer),
        ("biases", Pointer),
    ]


class Combine(ctypes.Structure):
    """The weighted sum of what a row's experts gave."""

    _fields_ = [
        ("input", _int32),
        ("output", _int32),
        ("chosen", _int32),
        ("accumulate", _int32),
        ("scale", _float),
    ]


class _Body(ctypes.Union):
    _fields_ = [
        ("embed", Embed),
        ("norm", Norm),
        ("linear", Linear),
        ("heads", Heads),
        ("attention", Attention),
        ("gate", Gate),
        ("gather", Gather),
        ("softcap", Softcap),
        ("route", Route),
        ("experts", Experts),
        ("combine", Combine),
    ]


class Instruction(ctypes.Structure):
    """One op and what it is applied to."""

    _fields_ = [("op", _int32), ("of_logits", _int32), ("body", _Body)]


class Span(ctypes.Structure):
    """One sequence's rows in a step, and one of its block tables."""

    _fields_ = [("row", _int32), ("start", _int32), ("length", _int32), ("table", _int32)]


class Step(ctypes.Structure):
    """What a program is run on."""

    _fields_ = [
        ("num_rows", _int32),
        ("num_spans", _int32),
        ("num_logit_rows", _int32),
        ("num_tables", _int32),
        ("ids", Pointer),
        ("positions", Pointer),
        ("slots", Pointer),
        ("spans", Pointer),
        ("units", Pointer),
        ("logit_rows", Pointer),
    ]


class Program(ctypes.Structure):
    """The instructions of a model's step, and the buffers that they work on."""

    _fields_ = [
        ("instructions", Pointer),
        ("num_instructions", _int32),
        ("num_buffers", _int32),
        ("buffers", Pointer),
        ("route_ids", Pointer),
        ("route_weights", Pointer),
        ("route_pairs", Pointer),
        ("route_places", Pointer),
        ("route_starts", Pointer),
    ]


class NativeBias(ctypes.Structure):
    """What is added to one token's logit."""

    _fields_ = [("token", _int32), ("value", _float)]


class NativeAsk(ctypes.Structure):
    """What is asked of one row of logits, and the answer; see sample.h."""

    _fields_ = [
        ("temperature", _double),
        ("top_p", _double),
        ("min_p", _double),
        ("number", _double),
        ("top_k", _int32),
        ("chooses", _int32),
        ("scores", _int32),
        ("num_top", _int32),
        ("repetition", _float),
        ("frequency", _float),
        ("presence", _float),
        ("num_biases", _int32),
        ("num_banned", _int32),
        ("num_prompt", _int32),
        ("num_outputs", _int32),
        ("finite", _int32),
        ("token", _int32),
        ("logprob", _float),
        ("biases", Pointer),
        ("banned", Pointer),
        ("prompt", Pointer),
        ("outputs", Pointer),
        ("mask", ctypes.c_char_p),
        ("top_ids", Pointer),
        ("top_logprobs", Pointer),
    ]


class NativeLogits(ctypes.Structure):
    """Rows of logits, `stride` floats apart."""

    _fields_ = [("data", Pointer), ("stride", _int64), ("vocabulary", _int32), ("num_rows", _int32)]


MIRRORED = (  # in the order of api.cpp
    *(Buffer, Weight, Cache, Instruction, Span, Step, Program, NativeAsk, NativeLogits),
    *(StateStep, Convolution, Selection, DeltaRule),
)


class LibraryMismatch(Exception):
    """The library was built from other sources than these."""


class Library:
    """The loaded library. Its calls hold no lock of Python's while they run."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.slab = Slab()  # of packed matrices
        self._calls = ctypes.CDLL(str(path))
        self._declare()
        sizes = (_int64 * len(MIRRORED))()
        self._calls.tidemark_sizes(sizes)
        ours = [ctypes.sizeof(structure) for structure in MIRRORED]
        if list(sizes) != ours:
            raise LibraryMismatch(f"{path.name} has structures of {list(sizes)} bytes, not {ours}: build it again")

    @cached_property
    def levels(self) -> tuple[Level, ...]:
        """The levels that this CPU runs, slowest first."""
        return tuple(level for level in Level if self._calls.tidemark_supports(level))

    def open_pool(self, num_threads: int) -> int:
        """Start threads that run programs; returns their handle."""
        handle: int | None = self._calls.tidemark_open(num_threads)
        if not handle:
            raise MemoryError(f"no memory for {num_threads} threads of the model step")
        return handle

    def close_pool(self, pool: int) -> None:
        """End the threads."""
        self._calls.tidemark_close(pool)

    def run(self, pool: int, level: Level, program: Program, step: Step) -> None:
        """Run a program; blocking. One at a time in a pool."""
        if self._calls.tidemark_run(pool, level, ctypes.byref(program), ctypes.byref(step)):
            raise MemoryError(f"no memory for a step of {step.num_rows} positions")

    def answer(self, pool: int, level: Level, logits: NativeLogits, asks: "ctypes.Array[NativeAsk]") -> None:
        """Choose and score tokens, one ask for each row; blocking. Not while the pool runs a program."""
        self._calls.tidemark_answer(pool, level, ctypes.byref(logits), asks)

    def convolve(self, pool: int, level: Level, convolution: Convolution) -> None:
        """Run a convolution over the spans of a step; blocking, as the two below. Not while the pool runs a program."""
        self._calls.tidemark_convolve(pool, level, ctypes.byref(convolution))

    def select(self, pool: int, level: Level, selection: Selection) -> None:
        """Run a selective scan."""
        self._calls.tidemark_select(pool, level, ctypes.byref(selection))

    def apply_delta_rule(self, pool: int, level: Level, rule: DeltaRule) -> None:
        """Run a gated delta rule."""
        self._calls.tidemark_apply_delta_rule(pool, level, ctypes.byref(rule))

    def panel_bytes(self, kind: Kind, inputs: int, block: int, *, has_min: bool) -> int:
        """Bytes of 16 outputs of a packed matrix."""
        size: int = self._calls.tidemark_panel_bytes(kind, inputs, block, int(has_min))
        return size

    def pack(self, weight: Weight, values: int, scales: int | None, minima: int | None) -> None:
        """Pack a plain matrix, given by its addresses, to `weight.data`."""
        self._calls.tidemark_pack(ctypes.byref(weight), values, scales, minima, weight.data)

    def _declare(self) -> None:
        self._set("supports", [_int32], _int32)
        self._set("sizes", [ctypes.POINTER(_int64)], None)
        self._set("open", [_int32], Pointer)
        self._set("close", [Pointer], None)
        self._set("run", [Pointer, _int32, ctypes.POINTER(Program), ctypes.POINTER(Step)], _int32)
        self._set("answer", [Pointer, _int32, ctypes.POINTER(NativeLogits), ctypes.POINTER(NativeAsk)], None)
        self._set("convolve", [Pointer, _int32, ctypes.POINTER(Convolution)], None)
        self._set("select", [Pointer, _int32, ctypes.POINTER(Selection)], None)
        self._set("apply_delta_rule", [Pointer, _int32, ctypes.POINTER(DeltaRule)], None)
        self._set("panel_bytes", [_int32] * 4, _int64)
        self._set("pack", [ctypes.POINTER(Weight), Pointer, Pointer, Pointer, Pointer], None)

    def _set(self, name: str, arguments: Sequence[type], result: type | None) -> None:
        call = getattr(self._calls, f"tidemark_{name}")
        call.argtypes, call.restype = list(arguments), result
