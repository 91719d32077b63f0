"""What makes `transformers` be imported in half the time, and 70 MiB lighter."""

import gc
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from copy import deepcopy
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest.mock import patch

COMPILER = "torch._dynamo"
INDEXING = f"{COMPILER}._trace_wrapped_higher_order_op"


@contextmanager
def lean_imports() -> Iterator[None]:
    """While it lasts, imports of `transformers` leave out what serving never calls; on one thread at a time.

    Left out are tensors spread over machines, attention written for torch's compiler, and the compiler itself, of
    which only marks on functions are asked for: together 900 modules, sympy among them. The exports of all models
    are read from 1,700 files once instead of twice. Whoever needs any of it later imports it as ever.

    The garbage collector, which finds none in modules, waits, and never looks at what was made until the end: it
    lives as long as the process, and a look at all of it takes 0.2 s.
    """
    with _without_collections(), _without_compiler(), ExitStack() as replaced:
        utils = import_module("transformers.utils")
        for module in (utils, utils.import_utils):
            for missing in ("is_torch_distributed_available", "is_torch_flex_attn_available"):
                replaced.enter_context(patch.object(module, missing, _is_missing))
        scan = utils.import_utils.create_import_structure_from_path
        replaced.enter_context(patch.object(utils.import_utils, scan.__name__, _scanned_once(scan)))
        yield


def _is_missing() -> bool:
    return False


def _scanned_once(scan: Callable[[Path], Any]) -> Callable[[str], Any]:
    """The exports of the models' folder, which the first import has just scanned, by the name that it went by."""

    def scanned(path: str) -> Any:  # nested dictionaries, `transformers`' own business
        here = Path(path)
        return deepcopy(scan(here.parent if here.is_file() else here))

    return scanned


@contextmanager
def _without_collections() -> Iterator[None]:
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        if enabled:
            gc.enable()


@contextmanager
def _without_compiler() -> Iterator[None]:
    """Have a stand-in where torch's compiler would be, unless it is there already."""
    if COMPILER in sys.modules:
        yield
        return
    torch: Any = import_module("torch")
    stand_ins = _stand_ins()
    sys.modules.update(stand_ins)
    torch._dynamo = stand_ins[COMPILER]  # noqa: SLF001  # the attribute that an import would set
    try:
        yield
    finally:
        del torch._dynamo  # noqa: SLF001  # torch's own look-up finds the real one
        for name in stand_ins:
            del sys.modules[name]


def _stand_ins() -> dict[str, ModuleType]:
    compiler, indexing = ModuleType(COMPILER), ModuleType(INDEXING)
    compiler.__dict__.update(allow_in_graph=_unmarked, assume_constant_result=_unmarked, disable=_disable)
    indexing.__dict__.update(TransformGetItemToIndex=_transform_indexing)
    return {COMPILER: compiler, INDEXING: indexing}


def _unmarked(function: Callable[..., object]) -> Callable[..., object]:
    return function


def _disable(function: Callable[..., object] | None, *_: object, **__: object) -> Callable[..., object]:
    """The mark of what is not to be compiled: on a function, or as a decorator."""
    return _unmarked if function is None else function


def _transform_indexing() -> object:
    """The real one, once somebody uses it."""
    return import_module(INDEXING).TransformGetItemToIndex()
