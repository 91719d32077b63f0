"""What the native recurrent layers are called with, field by field as recurrent.h has it."""

import ctypes

_int32, _int64, _float = ctypes.c_int32, ctypes.c_int64, ctypes.c_float
_Pointer = ctypes.c_void_p


class StateStep(ctypes.Structure):
    """The spans of a step, each with its slots, and the checkpoints to take."""

    _fields_ = [
        ("spans", _Pointer),
        ("checkpoints", _Pointer),
        ("num_spans", _int32),
        ("num_checkpoints", _int32),
    ]


class Columns(ctypes.Structure):
    """Some columns of rows of float32, which are `stride` floats apart."""

    _fields_ = [("data", _Pointer), ("stride", _int64)]


class Convolution(ctypes.Structure):
    """A causal convolution of each channel by itself."""

    _fields_ = [
        ("input", Columns),
        ("output", _Pointer),
        ("weight", _Pointer),
        ("bias", _Pointer),
        ("states", _Pointer),
        ("channels", _int32),
        ("taps", _int32),
        ("silu", _int32),
        ("reserved", _int32),
        ("step", StateStep),
    ]


class Selection(ctypes.Structure):
    """The selective scan of Mamba and Mamba-2."""

    _fields_ = [
        ("input", Columns),
        ("time", Columns),
        ("b", Columns),
        ("c", Columns),
        ("gate", Columns),
        ("output", _Pointer),
        ("a", _Pointer),
        ("skip", _Pointer),
        ("time_bias", _Pointer),
        ("states", _Pointer),
        ("heads", _int32),
        ("dim", _int32),
        ("num_states", _int32),
        ("groups", _int32),
        ("by_channel", _int32),
        ("time_min", _float),
        ("time_max", _float),
        ("reserved", _int32),
        ("step", StateStep),
    ]


class DeltaRule(ctypes.Structure):
    """The gated delta rule."""

    _fields_ = [
        ("query", Columns),
        ("key", Columns),
        ("value", Columns),
        ("time", Columns),
        ("rate", Columns),
        ("output", _Pointer),
        ("a", _Pointer),
        ("time_bias", _Pointer),
        ("states", _Pointer),
        ("key_heads", _int32),
        ("value_heads", _int32),
        ("key_dim", _int32),
        ("value_dim", _int32),
        ("step", StateStep),
    ]
