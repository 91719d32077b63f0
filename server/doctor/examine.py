"""Examine: look at the machine, the software, the kernels, the port and the model, and judge all of it."""

import platform
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import Protocol, TypeVar

from config.errors import ConfigError
from config.root import Root
from config.settings import Settings
from config.threads import told_threads
from engine.errors import EngineError
from engine.survey import KernelSurvey, ModelSurvey, NotFetched, TorchSurvey
from engine.surveyor import survey_kernels, survey_model, survey_torch
from server.doctor import serving, software
from server.doctor.findings import Finding, Section
from server.doctor.hardware import free_within, hardware
from server.doctor.machine import Machine, read_machine
from server.doctor.port import PortState, look_at
from server.doctor.store import StoreState, look_at_file
from server.tracing import import_traces
from server.version import VERSION

T = TypeVar("T")
MAX_REASON = 200  # characters
NO_MODEL = "-"  # what the settings hold where none was named


def version_of(package: str) -> str | None:
    """The version of a package that is installed; None of one that is not."""
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def missing_for_traces() -> str | None:
    """What `serve` would say where the extra for traces is not installed."""
    try:
        import_traces()
    except ConfigError as error:
        return str(error)
    return None


class SurveyModel(Protocol):
    """`engine.surveyor.survey_model`, or a test's."""

    def __call__(self, settings: Settings, /, *, progress: Callable[[str], None]) -> ModelSurvey | NotFetched:
        """Look at a model."""
        ...


@dataclass(frozen=True, slots=True)
class Probes:
    """What is asked for facts; tests ask others."""

    machine: Callable[[], Machine] = lambda: read_machine(Root())
    threads: Callable[[], dict[str, str]] = told_threads
    package: Callable[[str], str | None] = version_of
    compiler: Callable[[], str | None] = lambda: shutil.which("g++")
    torch: Callable[[], TorchSurvey] = survey_torch
    kernels: Callable[[], KernelSurvey] = survey_kernels
    model: SurveyModel = survey_model
    port: Callable[[str, int, str | None], PortState] = look_at
    store: Callable[[str], StoreState] = look_at_file
    traces: Callable[[], str | None] = missing_for_traces


def examine(settings: Settings, progress: Callable[[str], None], probes: Probes) -> list[Section]:
    """All findings; some seconds, most of which torch and the model take."""
    machine, threads = probes.machine(), probes.threads()  # before torch is imported, which may change them
    progress("importing torch")
    torch = _asked(probes.torch)
    progress("trying the kernels")
    kernels = "torch is missing" if isinstance(torch, str) else _asked(probes.kernels)
    installed = {"Tidemark": VERSION, "Python": platform.python_version()}
    packages = installed | {name: probes.package(name) for name in software.PACKAGES}
    return [
        Section(
            "software",
            (*software.versions(packages), software.torch_found(torch), software.compiler(probes.compiler(), kernels)),
        ),
        Section("machine", (*hardware(machine, settings, threads), software.gpu(machine.system, torch))),
        Section("kernels", tuple(software.kernels(kernels, settings.model, machine.processor))),
        Section("serving", tuple(_serving(settings, probes))),
        Section("model", tuple(_model(settings, machine, kernels, probes, progress))),
    ]


def _serving(settings: Settings, probes: Probes) -> Iterator[Finding]:
    server = settings.server
    key = server.api_keys[0].get_secret_value() if server.api_keys else None
    state = probes.port(server.host, server.port, key)
    yield serving.port(state, settings)
    yield from serving.keys(settings)
    if server.store_path is not None:
        yield serving.store(probes.store(server.store_path), settings, beside=state.version is not None)
    if server.traces:
        yield serving.traces(probes.traces())


def _model(
    settings: Settings, machine: Machine, kernels: object, probes: Probes, progress: Callable[[str], None]
) -> Iterator[Finding]:
    name = settings.model.path
    if name == NO_MODEL:
        return serving.no_model()
    if isinstance(kernels, str):
        return serving.refused(name, kernels, "Nothing can be computed without torch.")
    progress("looking at the model")
    try:
        found = probes.model(settings, progress=progress)
    except (EngineError, OSError) as error:
        return serving.refused(name, str(error), serving.advice_on(error, settings))
    if isinstance(found, NotFetched):
        return serving.not_fetched(found.hub_id)
    return serving.model(found, settings, free_within(machine))


def _asked(probe: Callable[[], T]) -> T | str:
    """What the engine says, or why it can't be asked."""
    try:
        return probe()
    except Exception as error:  # noqa: BLE001  # whatever a broken installation raises as it is imported
        return " ".join(f"{type(error).__name__}: {error}".split())[:MAX_REASON]
