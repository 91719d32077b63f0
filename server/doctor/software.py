"""Software: which versions there are, what the kernels give, and whether a GPU would be of use."""

from collections.abc import Iterator, Mapping

from config.settings import ModelSettings
from engine.survey import KernelSurvey, KernelTrial, TorchSurvey
from server.doctor.findings import Finding, Grade, plural
from server.doctor.machine import Processor, System

PACKAGES = ("torch", "transformers", "tokenizers", "llguidance", "fastapi", "uvicorn")
AMX_FLAGS, AVX512_FLAGS = {"amx_tile", "amx_bf16", "avx512_bf16"}, {"avx512f", "avx512bw", "avx512dq", "avx512vl"}
NOT_SERVED = "Tidemark computes on the CPU: no GPU is used yet."


def versions(found: Mapping[str, str | None]) -> Iterator[Finding]:
    """The versions that are installed; None is a package that is not."""
    there = [f"{name} {version}" for name, version in found.items() if version is not None]
    missing = [name for name, version in found.items() if version is None]
    yield Finding("versions", ", ".join(there))
    if missing:
        yield Finding(
            "packages",
            f"missing: {', '.join(missing)}",
            Grade.FAULT,
            "Install Tidemark again: make serve, or pip install.",
        )


def torch_found(torch: TorchSurvey | str) -> Finding:
    """The torch that was imported, or why it could not be."""
    if isinstance(torch, str):
        return Finding(
            "torch", f"can't be imported: {torch}", Grade.FAULT, "Install it again, for this Python and system."
        )
    built = "for the CPU alone" if torch.cuda is None else f"for CUDA {torch.cuda}"
    if torch.cuda is not None and not torch.gpus:
        return Finding(
            "torch",
            f"{torch.version}, built {built}",
            Grade.NOTE,
            "A build for the CPU alone is gigabytes smaller, and serves the same.",
        )
    return Finding("torch", f"{torch.version}, built {built}")


def gpu(system: System, torch: TorchSurvey | str) -> Finding:
    """What of a GPU there is, and that nothing runs on it."""
    names = () if isinstance(torch, str) else torch.gpus
    if names:
        return Finding("GPU", ", ".join(names), Grade.NOTE, NOT_SERVED)
    if system.gpu_devices and system.gpu_driver is None:
        return Finding(
            "GPU", f"{plural(system.gpu_devices, 'device')} of NVIDIA, and no driver", Grade.NOTE, NOT_SERVED
        )
    if system.gpu_devices:
        text = f"{plural(system.gpu_devices, 'device')} of NVIDIA, driver {system.gpu_driver}, which torch does not see"
        return Finding("GPU", text, Grade.NOTE, NOT_SERVED)
    return Finding("GPU", "none, and none is needed")


def compiler(path: str | None, kernels: KernelSurvey | str) -> Finding:
    """Whether the kernels could be built here."""
    built = isinstance(kernels, KernelSurvey) and kernels.unusable is None
    if path is not None:
        return Finding("compiler", path)
    if built:
        return Finding("compiler", "no g++, and none is needed: the kernels are built")
    return Finding(
        "compiler",
        "no g++",
        Grade.WARNING,
        "The native kernels are compiled as Tidemark is installed: install g++ first.",
    )


def kernels(found: KernelSurvey | str, settings: ModelSettings, processor: Processor) -> Iterator[Finding]:
    """The native library, the level that is chosen, and each level on each kind of bits."""
    if isinstance(found, str):
        yield Finding("library", found, Grade.FAULT, "Nothing can be computed without torch.")
        return
    asked = settings.kernels
    if found.unusable is not None:
        yield _without_library(found.unusable, asked)
        return
    yield Finding("library", f"built, loaded, and it fits; levels {', '.join(found.levels)}")
    yield _choice(found, asked, processor)
    level = asked if asked in found.levels else found.levels[-1]
    for trial in found.trials:
        if trial.level == level and asked != "torch":
            yield _trial(trial)
    yield from _others(found.trials, level)


def _without_library(reason: str, asked: str) -> Finding:
    if asked not in ("auto", "torch"):
        return Finding(
            "library",
            reason,
            Grade.FAULT,
            f"--kernels {asked} needs it: build it (pip install again, with g++), or leave --kernels out.",
        )
    advice = "The model step runs on torch, several times slower: install g++ and then Tidemark again."
    return Finding("library", reason, Grade.NOTE if asked == "torch" else Grade.WARNING, advice)


def _choice(found: KernelSurvey, asked: str, processor: Processor) -> Finding:
    best = found.levels[-1]
    if asked == "torch":
        advice = "It is several times slower than the kernels: leave --kernels out, but to compare."
        return Finding("path", "torch, as --kernels says", Grade.NOTE, advice)
    if asked == "auto":
        return Finding("path", f"{best}, the fastest here{_why_not_faster(best, processor)}")
    if asked not in found.levels:
        return Finding(
            "path", f"{asked}, which is not to be had here", Grade.FAULT, f"Leave --kernels out, or give {best}."
        )
    if asked != best:
        return Finding(
            "path", f"{asked}, as --kernels says", Grade.NOTE, f"{best} is faster here: leave --kernels out."
        )
    return Finding("path", f"{asked}, as --kernels says, and the fastest here")


def _why_not_faster(best: str, processor: Processor) -> str:
    wanted = {"avx2": AVX512_FLAGS, "avx512": AMX_FLAGS}.get(best, set())
    missing = sorted(wanted - processor.flags) if processor.flags else []
    return f"; the next needs {', '.join(missing)}" if missing else ""


def _trial(trial: KernelTrial) -> Finding:
    if trial.fault is None:
        return Finding(trial.bits, f"{trial.computed_with}; answers right")
    advice = (
        "Build the kernels again (pip install again); if that does not help serve with --kernels torch, and report it."
    )
    return Finding(trial.bits, f"{trial.computed_with}: {trial.fault}", Grade.WARNING, advice)


def _others(trials: tuple[KernelTrial, ...], level: str) -> Iterator[Finding]:
    wrong = [f"{trial.level} {trial.bits}: {trial.fault}" for trial in trials if trial.level != level and trial.fault]
    if wrong:
        yield Finding("other levels", "; ".join(wrong), Grade.NOTE, "They are not chosen here; report it.")
