import json

import pytest

from server.doctor.findings import Finding, Grade, Section, bytes_told, plural
from server.doctor.report import as_json, as_text, prevents

FINE = Section("machine", (Finding("cores", "4 to use"), Finding("large pages", "madvise")))
WARNED = Section(
    "kernels", (Finding("library", "it was not built", Grade.WARNING, "Install g++ first, and then install again."),)
)
FAULTY = Section("serving", (Finding("port", "taken", Grade.FAULT, "Give another --port."),))

TEXT = """\
machine
           cores        4 to use
           large pages  madvise

kernels
  warning  library      it was not built
                        → Install g++ first, and then
                          install again.

serving
  FAULT    port         taken
                        → Give another --port.

This would prevent serving: 1 fault, 1 warning.
"""


def test_the_report_is_aligned_and_wrapped() -> None:
    assert as_text([FINE, WARNED, FAULTY], width=20) == TEXT


def test_a_fault_prevents_serving_and_a_warning_does_not() -> None:
    assert prevents([FINE, WARNED, FAULTY])
    assert not prevents([FINE, WARNED])
    assert as_text([WARNED], width=80).endswith("\nNothing here would prevent serving: 1 warning.\n")
    assert as_text([FINE], width=80).endswith("\nNothing here would prevent serving.\n")


def test_a_program_reads_the_same_as_json() -> None:
    body = json.loads(as_json([FINE, FAULTY]))

    assert body["serves"] is False
    assert body["sections"][1] == {
        "name": "serving",
        "findings": [{"topic": "port", "grade": "fault", "text": "taken", "advice": "Give another --port."}],
    }
    assert body["sections"][0]["findings"][0]["advice"] is None


@pytest.mark.parametrize(
    ("count", "told"),
    [(12, "12 bytes"), (2048, "2 KiB"), (5 << 20, "5 MiB"), (3 << 29, "1.5 GiB"), (1 << 42, "4096.0 GiB")],
)
def test_sizes_are_told_in_the_units_of_settings(count: int, told: str) -> None:
    assert bytes_told(count) == told


def test_one_thing_is_no_several() -> None:
    assert (plural(1, "process", "processes"), plural(2, "process", "processes")) == ("1 process", "2 processes")
