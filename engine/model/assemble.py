"""From a located model to the forward pass that serves it, on the best path that its structure allows."""

import functools
import logging
from collections.abc import Callable
from dataclasses import dataclass

import torch
from transformers import PreTrainedModel
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

from config.cores import cores_here
from config.settings import CacheSettings, ModelSettings
from engine.cache.beside import keep_everything
from engine.cache.lanes import LaneStorage
from engine.cache.layout import LANES, Layout
from engine.cache.reading import read_layout
from engine.cache.sizing import context_that_fits
from engine.cache.states import StateStorage
from engine.cache.storage import KVStorage
from engine.errors import ModelUnsupported, SettingUnusable
from engine.model.angles import Angles, make_angles
from engine.model.encoding import Encoded
from engine.model.forward import Forward
from engine.model.gate import Verdict, check_structure
from engine.model.kernels.choice import Kernels, choose_kernels
from engine.model.load import OpenedModel, read_module
from engine.model.module_weights import ModuleWeights
from engine.model.native_forward import NativeForward
from engine.model.packed_forward import PackedForward
from engine.model.precision import Precision, encode_as
from engine.model.recognise import recognise
from engine.model.rotary import freeze_rotary
from engine.model.runner import ModelForward
from engine.model.structure import RotaryData
from engine.model.weights import WeightSource
from engine.stats import DraftModelInfo

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much a forward pass must hold."""

    num_units: int
    block_size: int
    max_positions: int  # of a step
    num_slots: int = 0  # for recurrent states


@dataclass(frozen=True, slots=True)
class Assembly:
    """What will serve a model: how its cache is laid out, on which path, and what makes the forward pass."""

    layout: Layout
    architecture: str
    vocabulary_size: int
    runs_on: str
    row_tile: int | None  # rows that are computed together, where the first costs most
    is_native: bool  # whether kernels compute it, with matrices in the bits of the file
    make_forward: Callable[[Sizes], ModelForward]
    draft_model: DraftModelInfo | None = None


def assemble(
    opened: OpenedModel,
    settings: ModelSettings,
    cache: CacheSettings,
    *,
    progress: Callable[[str], None],
    drafts: bool = False,
) -> Assembly:
    """Choose the path for a model, which serves or `drafts`; blocking. Raises ModelUnsupported."""
    kernels = kernels_for(settings, cache)
    progress("checking the model's answers on a small copy")
    verdict = check_structure(opened.config, kernels)
    if verdict.faults:
        _tell_faults(verdict, opened.config.model_type, settings, cache)
    kernels = verdict.path.kernels
    layout = read_layout(opened.config, cache_dtype(settings, cache, kernels), in_lanes=kernels is not None)
    layout = keep_everything(layout) if drafts else layout
    make = functools.partial(_make_forward, opened, settings, verdict, layout)
    return Assembly(
        layout,
        architecture=MODEL_FOR_CAUSAL_LM_MAPPING_NAMES[opened.config.model_type],
        vocabulary_size=opened.config.vocab_size,
        runs_on=str(verdict.path),
        row_tile=None if kernels is None else kernels.row_tile,
        is_native=kernels is not None,
        make_forward=make,
    )


def _make_forward(
    opened: OpenedModel,
    settings: ModelSettings,
    verdict: Verdict,
    layout: Layout,
    sizes: Sizes,
) -> ModelForward:
    threads = settings.num_threads or cores_here()
    kernels = verdict.path.kernels
    if kernels is not None and verdict.path.straight:
        source = opened.source or ModuleWeights(read_module(opened, None))
        return _straight(opened, source, verdict, kernels, settings.weights, layout, sizes, threads)
    dtype = getattr(torch, torch_dtype(settings.weights)) if kernels is None else None
    model = read_module(opened, dtype)
    freeze_rotary(model, opened.context_length)
    return _universal(model, kernels, settings.weights, layout, sizes, threads)


def _tell_faults(verdict: Verdict, model_type: str, settings: ModelSettings, cache: CacheSettings) -> None:
    """Say why a faster path does not run the model. Raises SettingUnusable where the settings ask for the kernels."""
    faults = "; ".join(verdict.faults)
    if verdict.path.kernels is None:
        if settings.kernels != "auto":
            asked = f"model.kernels is {settings.kernels}, and {model_type} can't be served on it"
            raise SettingUnusable(f"{asked}: {faults}", setting="model.kernels")
        _check_torch(settings, cache, f", and they don't run {model_type}: {faults}")
    logger.warning("%s runs on a slower path (%s), since a faster one fails: %s", model_type, verdict.path, faults)


def kernels_for(settings: ModelSettings, cache: CacheSettings) -> Kernels | None:
    """The kernels to serve with; None is torch. Raises SettingUnusable where the settings ask for more than that."""
    kernels = choose_kernels(settings.kernels)
    if kernels is not None and cache.block_size % LANES:
        if settings.kernels != "auto":
            asked = f"cache.block_size is {cache.block_size} and model.kernels {settings.kernels}"
            raise SettingUnusable(f"{asked}, which takes multiples of {LANES}", setting="cache.block_size")
        logger.warning(
            "cache.block_size is %d, and the kernels take multiples of %d: the model runs on torch, several times "
            "slower, its weights in float32 unless model.weights says otherwise",
            cache.block_size,
            LANES,
        )
        kernels = None
    if kernels is None:
        _check_torch(settings, cache)
    return kernels


def _check_torch(settings: ModelSettings, cache: CacheSettings, besides: str = "") -> None:
    for name, value in (("model.weights", settings.weights), ("cache.dtype", cache.dtype)):
        if value in ("int8", "int4"):
            without = besides or (", and model.kernels is torch" if settings.kernels == "torch" else "")
            raise SettingUnusable(f"{name} is {value}, which takes the native kernels{without}", setting=name)


def cache_dtype(settings: ModelSettings, cache: CacheSettings, kernels: Kernels | None) -> str:
    """The type of the cached rows: as it is set, or as the weights are computed with."""
    if cache.dtype != "auto":
        return cache.dtype
    if kernels is None:
        return torch_dtype(settings.weights)
    return "float32" if settings.weights == "float32" else "bfloat16"


def torch_dtype(weights: Precision) -> str:
    """What torch's operators compute in: float32, but for weights that were asked for in bfloat16."""
    return "bfloat16" if weights == "bfloat16" else "float32"


def _straight(
    opened: OpenedModel,
    source: WeightSource,
    verdict: Verdict,
    kernels: Kernels,
    precision: Precision,
    layout: Layout,
    sizes: Sizes,
    num_threads: int,
) -> NativeForward:
    structure = recognise(opened.config, source.names())
    if structure is None:
        raise ModelUnsupported(f"{opened.path.name} has other parameters than a {opened.config.model_type} model")
    return NativeForward(
        structure,
        source,
        _lanes(layout, sizes),
        kernels=kernels,
        max_rows=sizes.max_positions,
        num_threads=num_threads,
        angles=_angles(verdict, opened, layout, sizes),
        reencode=_reencode(precision),
    )


def _universal(
    model: PreTrainedModel,
    kernels: Kernels | None,
    precision: Precision,
    layout: Layout,
    sizes: Sizes,
    num_threads: int,
) -> Forward | PackedForward:
    rows, threads = sizes.max_positions, num_threads
    states = StateStorage(layout, num_slots=sizes.num_slots)
    if kernels is not None:
        return PackedForward(
            model,
            _lanes(layout, sizes),
            states,
            kernels=kernels,
            max_rows=rows,
            num_threads=threads,
            reencode=_reencode(precision),
        )
    cpu = torch.device("cpu")
    storage = KVStorage(layout, num_units=sizes.num_units, block_size=sizes.block_size, device=cpu)
    return Forward(model, storage, states, max_rows=rows, num_threads=threads)


def _lanes(layout: Layout, sizes: Sizes) -> LaneStorage:
    return LaneStorage(layout, num_units=sizes.num_units, block_size=sizes.block_size)


def _reencode(precision: Precision) -> Callable[[Encoded], Encoded]:
    return lambda matrix: encode_as(matrix, precision)


def _angles(verdict: Verdict, opened: OpenedModel, layout: Layout, sizes: Sizes) -> Callable[[RotaryData], Angles]:
    def angles(data: RotaryData) -> Angles:
        assert verdict.rotary is not None, "a layer that turns its heads has a module that says by how much"
        return make_angles(
            verdict.rotary,
            opened.config,
            data,
            context_length=opened.context_length,
            num_positions=context_that_fits(layout, sizes.num_units, sizes.block_size, opened.context_length),
        )

    return angles
