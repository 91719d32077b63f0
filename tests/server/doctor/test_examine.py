import sys
from collections.abc import Callable
from dataclasses import replace

import pytest

from config.settings import Settings
from engine.errors import ModelUnsupported, SettingUnusable
from engine.survey import KernelSurvey, ModelSurvey, NotFetched, TorchSurvey
from server.doctor.examine import Probes, examine, missing_for_traces, version_of
from server.doctor.findings import Finding, Grade
from server.doctor.port import PortState
from server.doctor.store import StoreState
from tests.server.doctor.machines import MACHINE, settings
from tests.server.doctor.test_serving import SURVEY
from tests.server.doctor.test_software import KERNELS, TORCH


def found(_settings: Settings, *, progress: Callable[[str], None]) -> ModelSurvey | NotFetched:
    progress("looking closely")
    return SURVEY


PROBES = Probes(
    machine=lambda: MACHINE,
    threads=dict,
    package=lambda _: "1.0",
    compiler=lambda: None,
    torch=lambda: TORCH,
    kernels=lambda: KERNELS,
    model=found,
    port=lambda _host, _port, _key: PortState(),
)


def examined(asked: Settings, probes: Probes = PROBES) -> dict[str, dict[str, Finding]]:
    sections = examine(asked, lambda _: None, probes)
    return {section.name: {each.topic: each for each in section.findings} for section in sections}


def test_all_subjects_are_looked_at() -> None:
    sections = examined(settings("x.gguf"))

    assert list(sections) == ["software", "machine", "kernels", "serving", "model"]
    assert sections["model"]["runs on"].grade is Grade.OK


def test_progress_is_told() -> None:
    told: list[str] = []

    examine(settings("x.gguf"), told.append, PROBES)

    assert told == ["importing torch", "trying the kernels", "looking at the model", "looking closely"]


def test_the_port_is_asked_with_the_first_key() -> None:
    asked: list[tuple[str, int, str | None]] = []

    def port(host: str, port: int, key: str | None) -> PortState:
        asked.append((host, port, key))
        return PortState()

    for keys in ((), ("one", "two")):
        examined(settings(server={"api_keys": keys}), replace(PROBES, port=port))

    assert asked == [("127.0.0.1", 8000, None), ("127.0.0.1", 8000, "one")]


def test_without_a_model_that_is_noted() -> None:
    assert examined(settings())["model"]["model"].text == "none was named"


def test_a_model_that_is_refused_says_why() -> None:
    def refuse(_settings: Settings, *, progress: Callable[[str], None]) -> ModelSurvey | NotFetched:
        raise ModelUnsupported("bloom can't be served: its attention uses ALiBi")

    finding = examined(settings("x"), replace(PROBES, model=refuse))["model"]["model"]

    assert (finding.grade, finding.text) == (Grade.FAULT, "x: bloom can't be served: its attention uses ALiBi")


def test_a_model_that_is_not_here_is_noted() -> None:
    def elsewhere(_settings: Settings, *, progress: Callable[[str], None]) -> ModelSurvey | NotFetched:
        return NotFetched("org/x")

    assert examined(settings("org/x"), replace(PROBES, model=elsewhere))["model"]["model"].grade is Grade.NOTE


def test_a_setting_that_does_not_go_with_the_model_is_named_by_its_flag() -> None:
    def refuse(_settings: Settings, *, progress: Callable[[str], None]) -> ModelSurvey | NotFetched:
        raise SettingUnusable("the draft model /nosuch: there is no folder", setting="model.draft_path")

    finding = examined(settings("x"), replace(PROBES, model=refuse))["model"]["model"]

    assert (finding.grade, finding.advice) == (Grade.FAULT, "Give another --draft-model, or leave it out.")


def test_the_store_and_the_traces_are_looked_at_where_they_are_asked_for() -> None:
    probes = replace(PROBES, store=lambda path: StoreState(f"no {path}"), traces=lambda: "not installed")

    asked = examined(settings(server={"store_path": "/f", "traces": True}), probes)["serving"]

    assert set(examined(settings(), probes)["serving"]) == {"port"}
    assert (asked["store"].grade, asked["traces"].grade) == (Grade.FAULT, Grade.FAULT)


def test_a_store_that_a_server_at_this_port_has_is_no_fault() -> None:
    held = replace(PROBES, store=lambda _: StoreState("database is locked", held=True))
    beside = replace(held, port=lambda _host, _port, _key: PortState("in use", "0.1.0"))

    grades = [
        examined(settings(server={"store_path": "/f"}), each)["serving"]["store"].grade for each in (held, beside)
    ]

    assert grades == [Grade.FAULT, Grade.NOTE]


def test_an_extra_that_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    assert missing_for_traces() is None

    monkeypatch.delitem(sys.modules, "server.traces", raising=False)
    for name in ("opentelemetry.sdk", "opentelemetry.sdk.resources"):
        monkeypatch.setitem(sys.modules, name, None)

    assert "needs the extra otel" in (missing_for_traces() or "")


def test_a_broken_torch_is_a_finding_and_no_traceback() -> None:
    def broken() -> TorchSurvey:
        raise OSError("libgomp.so.1: cannot open\nshared object file")

    sections = examined(settings("x.gguf"), replace(PROBES, torch=broken))

    assert (
        sections["software"]["torch"].text == "can't be imported: OSError: libgomp.so.1: cannot open shared object file"
    )
    assert sections["kernels"]["library"].grade is Grade.FAULT
    assert sections["model"]["model"].grade is Grade.FAULT
    assert "torch" in sections["model"]["model"].advice


def test_kernels_that_break_are_a_finding() -> None:
    def broken() -> KernelSurvey:
        raise MemoryError("no memory for 1 threads of the model step")

    assert examined(settings(), replace(PROBES, kernels=broken))["kernels"]["library"].grade is Grade.FAULT


@pytest.mark.parametrize(("package", "there"), [("pydantic", True), ("no-such-package-here", False)])
def test_a_package_has_a_version_where_it_is_installed(package: str, there: bool) -> None:
    assert (version_of(package) is not None) is there
