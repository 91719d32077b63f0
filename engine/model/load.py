"""From a folder of safetensors, a GGUF file or a hub id to a model in memory, through `transformers`."""

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from huggingface_hub.errors import StrictDataclassError
from huggingface_hub.utils import logging as hub_logging
from transformers import AutoConfig, AutoModelForCausalLM, GgufConfig, PreTrainedConfig, PreTrainedModel
from transformers.utils import logging as transformers_logging

from config.settings import ModelSettings
from engine.errors import EngineError, ModelError, ModelNotFound
from engine.model.check import (
    CONTEXT_FIELDS,
    Terms,
    check_file,
    check_folder,
    check_heads,
    check_parameters,
    check_shapes,
    terms_of,
)
from engine.model.gguf import quick_gguf
from engine.model.gguf_reader import GgufFile
from engine.model.gguf_weights import find_weights
from engine.model.locate import locate_model, one_line
from engine.model.recognise import recognise
from engine.model.safetensors_weights import find_safetensors
from engine.model.support import check_config
from engine.model.weights import WeightSource


@dataclass(frozen=True, slots=True)
class OpenedModel:
    """A model that was found and can be served as far as its config says; its weights are not read yet."""

    config: PreTrainedConfig
    path: Path  # the folder or GGUF file, the tokenizer's too
    name: str  # the id it is served under
    context_length: int  # positions that the model and `max_context` allow
    source: WeightSource | None  # its parameters, where they can be read without `transformers`


def open_model(settings: ModelSettings, *, progress: Callable[[str], None]) -> OpenedModel:
    """Find a model and read its config; blocking.

    Raises:
        ModelNotFound: there are no such files, or the hub can't be reached.
        ModelUnsupported: a structure that this engine does not run, named.
        ModelError: the files are there and can't be read.
    """
    path = locate_model(settings.path, progress)
    with quiet_libraries(), _failing_as(f"{settings.path} can't be loaded"):
        config, source = _open_folder(path) if path.is_dir() else _open_file(path)
        context_length = _context_length(config, settings.max_context)
    return OpenedModel(config, path, settings.served_name, context_length, source)


def read_module(opened: OpenedModel, dtype: torch.dtype | None) -> PreTrainedModel:
    """The model as `transformers` builds it, in `dtype` or in the file's own type; blocking. Raises ModelError."""
    with quiet_libraries(), _failing_as(f"{opened.path} can't be loaded"):
        return _read_weights(opened.path, opened.config, dtype or "auto")


def _open_folder(folder: Path) -> tuple[PreTrainedConfig, WeightSource | None]:
    """The config, and the parameters unless they have other names: `transformers` knows what to make of them."""
    check_folder(folder)
    config: PreTrainedConfig = AutoConfig.from_pretrained(folder, trust_remote_code=False)
    check_config(config)
    terms = Terms()
    check_heads(config, terms)
    source = find_safetensors(folder, tied=bool(config.tie_word_embeddings))
    if source is None:
        return config, None
    check_parameters(config, source.names(), terms)
    structure = recognise(config, source.names())
    if structure is None:
        return config, None
    check_shapes(config, structure, source, terms)
    return config, source


def _open_file(path: Path) -> tuple[PreTrainedConfig, WeightSource | None]:
    file = GgufFile(path)
    check_file(file)
    with quick_gguf():
        config: PreTrainedConfig = AutoConfig.from_pretrained(path.parent, gguf_file=path.name)
    check_config(config)
    terms = terms_of(file)
    check_heads(config, terms)
    source = find_weights(file)
    structure = None if source is None else recognise(config, source.names())
    if source is not None and structure is not None:
        check_shapes(config, structure, source, terms)
    return config, source


def _read_weights(path: Path, config: PreTrainedConfig, dtype: torch.dtype | str) -> PreTrainedModel:
    """All weights in `dtype`; those of a GGUF file unpacked, here and never in a step."""
    options: dict[str, Any] = {"config": config, "dtype": dtype, "output_loading_info": True}
    options["ignore_mismatched_sizes"] = True  # they are told below, by their names
    if path.is_dir():
        if not any(path.glob("*.safetensors")):
            raise ModelNotFound(f"the folder {path} has no .safetensors files")
        loaded: Any = AutoModelForCausalLM.from_pretrained(path, use_safetensors=True, **options)
    else:
        options |= {"gguf_file": path.name, "quantization_config": GgufConfig(dequantize=True)}
        with quick_gguf():
            loaded = AutoModelForCausalLM.from_pretrained(path.parent, **options)
    model, info = loaded  # two, since the loading info was asked for
    for name, found, wanted in sorted(info["mismatched_keys"]):
        raise ModelError(f"{name} has the shape {list(found)}, and by the config it is {list(wanted)}")
    if missing := sorted(info["missing_keys"]):
        raise ModelError(f"{path.name} lacks {len(missing)} of the model's tensors, among them {missing[0]}")
    assert isinstance(model, PreTrainedModel)
    return model


def _context_length(config: PreTrainedConfig, max_context: int | None) -> int:
    own = next((value for field in CONTEXT_FIELDS if isinstance(value := getattr(config, field, None), int)), None)
    limits = [limit for limit in (own, max_context) if limit is not None]
    if not limits:
        raise ModelError("its config does not say how long its context is: set model.max_context")
    return min(limits)


@contextmanager
def _failing_as(what: str) -> Iterator[None]:
    """Turn whatever the libraries raise about files into one line of ours."""
    try:
        yield
    except EngineError:
        raise
    except StrictDataclassError as error:  # of a config; what was wrong with it is its cause
        reason = error.__cause__ if isinstance(error.__cause__, Exception) else error
        raise ModelError(f"{what}: {one_line(reason)}") from error
    except Exception as error:  # each library and file format has errors of its own
        raise ModelError(f"{what}: {one_line(error)}") from error


@contextmanager
def quiet_libraries() -> Iterator[None]:
    """Keep the libraries' progress bars, logs and warnings off the terminal."""
    verbosity, hub_verbosity = transformers_logging.get_verbosity(), hub_logging.get_verbosity()
    bars = transformers_logging.is_progress_bar_enabled()
    transformers_logging.set_verbosity_error()
    hub_logging.set_verbosity_error()
    transformers_logging.disable_progress_bar()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        transformers_logging.set_verbosity(verbosity)
        hub_logging.set_verbosity(hub_verbosity)
        if bars:
            transformers_logging.enable_progress_bar()
