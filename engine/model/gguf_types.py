"""The types that a GGUF file stores tensors in, and the sizes of their blocks."""

from enum import IntEnum


class GgmlType(IntEnum):
    """The types that are decoded here, by their numbers in GGML."""

    F32 = 0
    F16 = 1
    Q4_0 = 2
    Q4_1 = 3
    Q5_0 = 6
    Q5_1 = 7
    Q8_0 = 8
    Q2_K = 10
    Q3_K = 11
    Q4_K = 12
    Q5_K = 13
    Q6_K = 14
    IQ4_NL = 20
    IQ4_XS = 23
    BF16 = 30
    MXFP4 = 39


SIZES = {  # values of a block, and its bytes
    GgmlType.F32: (1, 4),
    GgmlType.F16: (1, 2),
    GgmlType.BF16: (1, 2),
    GgmlType.Q4_0: (32, 18),
    GgmlType.Q4_1: (32, 20),
    GgmlType.Q5_0: (32, 22),
    GgmlType.Q5_1: (32, 24),
    GgmlType.Q8_0: (32, 34),
    GgmlType.Q2_K: (256, 84),
    GgmlType.Q3_K: (256, 110),
    GgmlType.Q4_K: (256, 144),
    GgmlType.Q5_K: (256, 176),
    GgmlType.Q6_K: (256, 210),
    GgmlType.IQ4_NL: (32, 18),
    GgmlType.IQ4_XS: (256, 136),
    GgmlType.MXFP4: (32, 17),
}


def size_of_block(type_: int) -> tuple[int, int]:
    """The values of a block of this type, and its bytes; ValueError where nobody knows the type."""
    if type_ in SIZES:
        return SIZES[GgmlType(type_)]
    import gguf  # noqa: PLC0415  # only files of rare types wait for it

    return gguf.GGML_QUANT_SIZES[gguf.GGMLQuantizationType(type_)]
