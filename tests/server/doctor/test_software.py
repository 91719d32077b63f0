import pytest

from engine.survey import KernelSurvey, KernelTrial, TorchSurvey
from server.doctor.findings import Finding, Grade
from server.doctor.software import compiler, gpu, kernels, torch_found, versions
from tests.server.doctor.machines import MACHINE, machine, settings

TORCH = TorchSurvey("2.0+cpu", None, ())
WRONG = KernelTrial("avx2", "int8", "AVX2 and FMA", "its products differ")
KERNELS = KernelSurvey(None, ("avx2", "avx512"), (WRONG, KernelTrial("avx512", "int8", "AVX-512")))


def judged(found: KernelSurvey | str = KERNELS, choice: str = "auto") -> dict[str, Finding]:
    asked = settings(model={"kernels": choice}).model
    return {each.topic: each for each in kernels(found, asked, MACHINE.processor)}


def test_a_package_that_is_missing_prevents_serving() -> None:
    told, missing = versions({"torch": "2.0", "transformers": None})

    assert told == Finding("versions", "torch 2.0")
    assert (missing.grade, missing.text) == (Grade.FAULT, "missing: transformers")


@pytest.mark.parametrize(
    ("torch", "grade", "words"),
    [
        (TORCH, Grade.OK, "2.0+cpu, built for the CPU alone"),
        (TorchSurvey("2.0", "12.4", ("A GPU",)), Grade.OK, "built for CUDA 12.4"),
        (TorchSurvey("2.0", "12.4", ()), Grade.NOTE, "built for CUDA 12.4"),
        ("ImportError: no", Grade.FAULT, "can't be imported: ImportError: no"),
    ],
)
def test_torch_is_told_by_what_it_was_built_for(torch: TorchSurvey | str, grade: Grade, words: str) -> None:
    finding = torch_found(torch)

    assert (finding.grade, words in finding.text) == (grade, True)


@pytest.mark.parametrize(
    ("system", "torch", "text"),
    [
        ({}, TORCH, "none, and none is needed"),
        ({}, TorchSurvey("2.0", "12.4", ("A GPU",)), "A GPU"),
        ({"gpu_devices": 2}, "no torch", "2 devices of NVIDIA, and no driver"),
        (
            {"gpu_devices": 1, "gpu_driver": "550.1"},
            TORCH,
            "1 device of NVIDIA, driver 550.1, which torch does not see",
        ),
    ],
)
def test_a_gpu_is_named_and_not_used(system: dict[str, object], torch: TorchSurvey | str, text: str) -> None:
    finding = gpu(machine(system=system).system, torch)

    assert finding.text == text
    assert ("no GPU is used yet" in finding.advice) is (finding.grade is Grade.NOTE)


@pytest.mark.parametrize(
    ("path", "found", "grade"),
    [
        ("/usr/bin/g++", "no torch", Grade.OK),
        (None, KERNELS, Grade.OK),
        (None, KernelSurvey("not built"), Grade.WARNING),
        (None, "no torch", Grade.WARNING),
    ],
)
def test_a_compiler_is_missed_where_there_are_no_kernels(
    path: str | None, found: KernelSurvey | str, grade: Grade
) -> None:
    assert compiler(path, found).grade is grade


def test_the_fastest_level_is_chosen_and_says_what_the_next_one_needs() -> None:
    found = judged()

    assert found["path"].text == "avx512, the fastest here; the next needs amx_bf16, amx_tile, avx512_bf16"
    assert found["int8"] == Finding("int8", "AVX-512; answers right")
    assert found["other levels"].text == "avx2 int8: its products differ"


@pytest.mark.parametrize(
    ("choice", "grade", "words"),
    [
        ("torch", Grade.NOTE, "torch, as --kernels says"),
        ("avx2", Grade.NOTE, "avx2, as --kernels says"),
        ("avx512", Grade.OK, "and the fastest here"),
        ("amx", Grade.FAULT, "amx, which is not to be had here"),
    ],
)
def test_a_level_that_was_asked_for_is_judged(choice: str, grade: Grade, words: str) -> None:
    finding = judged(choice=choice)["path"]

    assert (finding.grade, words in finding.text) == (grade, True)


def test_a_kernel_that_answers_wrong_is_warned_of_and_torch_hides_it() -> None:
    assert judged(choice="avx2")["int8"].grade is Grade.WARNING
    assert "int8" not in judged(choice="torch")


@pytest.mark.parametrize(("choice", "grade"), [("auto", Grade.WARNING), ("torch", Grade.NOTE), ("avx2", Grade.FAULT)])
def test_a_library_that_cannot_be_used_says_why(choice: str, grade: Grade) -> None:
    finding = judged(KernelSurvey("it was not built"), choice)["library"]

    assert (finding.text, finding.grade) == ("it was not built", grade)


def test_without_torch_there_are_no_kernels() -> None:
    assert judged("torch is missing")["library"].grade is Grade.FAULT


def test_the_best_level_says_nothing_of_a_next_one() -> None:
    survey = KernelSurvey(None, ("amx",), ())

    assert judged(survey)["path"].text == "amx, the fastest here"
