"""Survey: what torch, the kernels and a model's files are here, for whoever asks without serving."""

from collections import Counter
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import assert_never

import numpy as np
import torch
from safetensors import safe_open

from engine.errors import ModelNotFound
from engine.model.encoding import Encoded
from engine.model.gguf_blocks import FLOATS, FORMATS
from engine.model.gguf_reader import GgufFile
from engine.model.gguf_types import GgmlType
from engine.model.kernels.choice import Kernels
from engine.model.kernels.library import LibraryUnusable, load_library
from engine.model.kernels.matrix import NAMES, pack
from engine.model.kernels.native import Kind, Level, Library
from engine.model.kernels.product import MatrixProduct, Place
from engine.model.precision import BLOCK, Precision, encode_as
from engine.survey import KernelSurvey, KernelTrial, TorchSurvey

INPUTS, OUTPUTS, NUM_ROWS = 96, 40, 20  # whole tiles of rows and columns, and some that are not
TOLERANCE = 1e-4  # of the largest value, as at the gate
SCALE_BYTES = 2
VALUE_BYTES = {Kind.F32: 4.0, Kind.F16: 2.0, Kind.BF16: 2.0, Kind.Q8: 1.0, Kind.Q4: 0.5}
ASKED: dict[Precision, float] = {  # bytes of a value, scales and minima with it
    "float32": 4.0,
    "bfloat16": 2.0,
    "int8": 1.0 + SCALE_BYTES / BLOCK,
    "int4": 0.5 + 2 * SCALE_BYTES / BLOCK,
}
SAFETENSORS = {"F32": 4.0, "F16": 2.0, "BF16": 2.0}


def torch_here() -> TorchSurvey:
    """The torch that is installed, and the GPUs that it sees."""
    gpus = range(torch.cuda.device_count()) if torch.cuda.is_available() else ()
    return TorchSurvey(torch.__version__, torch.version.cuda, tuple(torch.cuda.get_device_name(gpu) for gpu in gpus))


def try_kernels() -> KernelSurvey:
    """Each level that this CPU runs, on a small matrix in each kind of bits."""
    try:
        library = load_library()
    except LibraryUnusable as reason:
        return KernelSurvey(str(reason))
    kinds = [(kind, _matrix(kind)) for kind in NAMES]
    pool = library.open_pool(1)
    try:
        trials = tuple(
            KernelTrial(level.name.lower(), NAMES[kind], computed_with(level, kind), _fault(library, pool, level, one))
            for level in library.levels
            for kind, one in kinds
        )
    finally:
        library.close_pool(pool)
    return KernelSurvey(None, tuple(level.name.lower() for level in library.levels), trials)


def computed_with(level: Level, kind: Kind) -> str:
    """The instructions that a level's products are made of, for people."""
    match level:
        case Level.AVX2:
            return "AVX2 and FMA"
        case Level.AVX512:
            return "AVX-512"
        case Level.AMX:
            tiles = "AMX tiles, rounded to bfloat16" if kind is Kind.F16 else "AMX tiles"
            return "AVX-512" if kind is Kind.F32 else tiles  # which take bfloat16
        case _:
            assert_never(level)


def _matrix(kind: Kind) -> Encoded:
    values = np.random.default_rng(0).standard_normal((OUTPUTS, INPUTS), np.float32)
    if kind is Kind.F16:
        return Encoded(kind, values.astype(np.float16))
    asked: dict[str, Precision] = {NAMES[Kind.F32]: "float32", NAMES[Kind.BF16]: "bfloat16"}
    asked |= {NAMES[Kind.Q8]: "int8", NAMES[Kind.Q4]: "int4"}
    return encode_as(Encoded(Kind.F32, values), asked[NAMES[kind]])


def _fault(library: Library, pool: int, level: Level, encoded: Encoded) -> str | None:
    """What is wrong with rows times a matrix: against torch, and alone against in company."""
    rows = torch.randn(NUM_ROWS, INPUTS, generator=torch.Generator().manual_seed(0))
    matrix = pack(library, encoded)
    product = MatrixProduct(Place(Kernels(library, level), pool), matrix.weight(), None)
    together, alone = product(rows, NUM_ROWS), torch.cat([product(rows[i : i + 1], 1) for i in range(NUM_ROWS)])
    weight = encoded.dense()
    if level is Level.AMX and encoded.kind is Kind.F16:
        weight = weight.bfloat16().float()
    expected = rows @ weight.T
    if not (worst := (together - expected).abs().max()) <= TOLERANCE * expected.abs().max():
        return f"its products differ from torch's by up to {worst:.2g}"
    return None if torch.equal(together, alone) else "a row's product depends on the rows beside it"


@dataclass(frozen=True, slots=True)
class ModelFiles:
    """A model's files: their size, the types in them, and about what their weights take in memory."""

    file_bytes: int
    stored_as: str
    weight_bytes: int


@dataclass(frozen=True, slots=True)
class _Stored:
    """A tensor of a file: the name of its type, how many values it has, and the bytes of one where they are kept."""

    type: str
    num_values: int
    value_bytes: float


def read_files(path: Path, precision: Precision, *, is_native: bool) -> ModelFiles:
    """What a folder of safetensors or a GGUF file holds, by its headers. Raises ModelError."""
    files = sorted(path.glob("*.safetensors")) if path.is_dir() else [path]
    if not files:
        raise ModelNotFound(f"the folder {path} has no .safetensors files")
    tensors = [tensor for file in files for tensor in (_of_folder(file) if path.is_dir() else _of_gguf(file))]
    values: Counter[str] = Counter()
    for tensor in tensors:
        values[tensor.type] += tensor.num_values
    by_torch = ASKED["bfloat16"] if precision == "bfloat16" else ASKED["float32"]
    asked = ASKED.get(precision) if is_native else by_torch
    kept = sum(tensor.num_values * (tensor.value_bytes if asked is None else asked) for tensor in tensors)
    names = "+".join(name for name, _ in values.most_common())
    return ModelFiles(sum(file.stat().st_size for file in files), names, int(kept))


def _of_folder(file: Path) -> list[_Stored]:
    with safe_open(file, framework="pt") as opened:
        slices = [opened.get_slice(name) for name in opened.keys()]  # noqa: SIM118  # it is no mapping
        return [
            _Stored(one.get_dtype(), prod(one.get_shape()), SAFETENSORS.get(one.get_dtype(), 4.0)) for one in slices
        ]


def _of_gguf(file: Path) -> list[_Stored]:
    tensors = GgufFile(file).tensors.values()
    return [_Stored(_name(one.type), prod(one.shape), _kept_bytes(one.type)) for one in tensors]


def _name(type_: int) -> str:
    return GgmlType(type_).name if type_ in list(GgmlType) else f"type {type_}"


def _kept_bytes(type_: int) -> float:
    """A value's bytes in memory, with its part of a scale and a minimum."""
    if type_ in FORMATS:
        kept = FORMATS[GgmlType(type_)]
        return VALUE_BYTES[kept.kind] + SCALE_BYTES * (2 if kept.has_min else 1) / kept.part
    return VALUE_BYTES[FLOATS[GgmlType(type_)]] if type_ in FLOATS else VALUE_BYTES[Kind.BF16]
