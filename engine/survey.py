"""Survey: what this installation could serve here, as it was found without serving it."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TorchSurvey:
    """The torch that is installed. `cuda` is what it was built for; None is the CPU alone."""

    version: str
    cuda: str | None
    gpus: tuple[str, ...]  # that it sees, by their names


@dataclass(frozen=True, slots=True)
class KernelTrial:
    """One level of the native kernels on matrices of some bits: what computes there, and what was wrong."""

    level: str
    bits: str
    computed_with: str
    fault: str | None = None


@dataclass(frozen=True, slots=True)
class KernelSurvey:
    """The native library: why it can't be used, or what it does on this CPU, the slowest level first."""

    unusable: str | None
    levels: tuple[str, ...] = ()
    trials: tuple[KernelTrial, ...] = ()


@dataclass(frozen=True, slots=True)
class NotFetched:
    """A hub id that is not on this machine yet."""

    hub_id: str


@dataclass(frozen=True, slots=True)
class ModelSurvey:
    """A model that could be served, as far as that can be told without reading its weights."""

    path: str
    file_bytes: int
    architecture: str
    stored_as: str  # the types of its matrices in the files, those of most values first
    runs_on: str
    context_length: int  # positions: the smaller of the model's and the cache's
    model_context_length: int
    weight_bytes: int  # about what they take in memory
    cache_bytes: int
