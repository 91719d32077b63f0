import io

from benchmarks.measure import Run
from benchmarks.peers.openvino import note, told
from tests.benchmarks.runs import a_summary


def test_lines_of_the_process_fill_a_run() -> None:
    run = Run("OpenVINO GenAI")

    note(run, {"first_answer": 112.5}, started=100.0)
    note(run, {"workload": "W1", "resident_bytes": 5, "result": a_summary()}, started=100.0)
    note(run, {"workload": "W2", "resident_bytes": 7, "result": a_summary()}, started=100.0)
    note(run, {"workload": "W3", "resident_bytes": 9, "result": a_summary()}, started=100.0)

    assert run.first_answer_seconds == 12.5
    assert list(run.results) == ["W1", "W2", "W3"]
    assert run.resident_bytes == 7


def test_what_libraries_write_between_the_lines_is_passed_over() -> None:
    output = io.BytesIO(b'a warning\n{"first_answer": 1.5}\n[INFO] done\n')

    assert list(told(output)) == [{"first_answer": 1.5}]
