"""What a server can be told about bits, one choice at a time."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from engine.model.kernels.choice import Choice
from engine.model.kernels.library import library
from engine.model.kernels.native import Level

if TYPE_CHECKING:
    from engine.model.precision import Precision  # imports torch

LEVELS: tuple[Choice, ...] = ("avx2", "avx512", "amx")


class NoKernels(Exception):
    """There is no native library, or no such level."""


@dataclass(frozen=True, slots=True)
class Way:
    """What stands on the server's command line."""

    kernels: Choice
    weights: "Precision" = "auto"
    cache: Literal["auto", "float32", "bfloat16", "int8"] = "auto"

    def __str__(self) -> str:
        return f"--kernels {self.kernels} --weights {self.weights} --cache-dtype {self.cache}"


REFERENCE = Way("torch", "float32", "float32")


def levels_here(asked: Sequence[str]) -> list[Choice]:
    """The levels that this CPU has, of those that are asked for. Raises NoKernels."""
    native = library()
    found = [] if native is None else [name for name in LEVELS if Level[name.upper()] in native.levels]
    if not (both := [name for name in found if name in asked]):
        raise NoKernels(f"of {', '.join(asked)} there is none here")
    return both


def levels_of(kernels: Sequence[Choice]) -> dict[str, Way]:
    """Each of the kernels' levels, everything else left at `auto`."""
    return {f"`--kernels {level}`": Way(level) for level in kernels}


def choices_of(kernels: Choice) -> dict[str, Way]:
    """Each type of weights and then each of the cache, on one level; and what else torch's operators can do."""
    weights = {f"`--weights {kind}`": Way(kernels, weights=kind) for kind in ("float32", "bfloat16", "int8", "int4")}
    caches = {f"`--cache-dtype {kind}`": Way(kernels, cache=kind) for kind in ("float32", "bfloat16", "int8")}
    return {**weights, **caches, "`--kernels torch --weights bfloat16`": Way("torch", weights="bfloat16")}
