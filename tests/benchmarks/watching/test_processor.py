from benchmarks.watching.processor import Processor
from server.metrics import Metrics, Reading
from server.recorder import RequestMetrics
from server.service import State


def test_what_a_server_used_is_read_from_its_metrics() -> None:
    reading = Reading("a model", State.READY, cache=None, snapshot=None, requests=RequestMetrics().view())
    exposition, _ = Metrics(lambda: reading, vllm_names=True, clock=lambda: 2.25).render("")

    used = Processor.of(exposition.decode())

    assert used.loop == 2.25
    assert used.threads >= 0


def test_all_threads_are_those_of_the_process_and_nothing_where_that_is_not_told() -> None:
    loop = 'tidemark_event_loop_cpu_seconds_total{model="m"} 1.5\n'

    assert Processor.of(f"{loop}process_cpu_seconds_total 7.25\n") == Processor(1.5, 7.25)
    assert Processor.of(loop) == Processor(1.5, 0.0)


def test_what_was_used_between_two_moments_is_their_difference() -> None:
    used = Processor(3.0, 7.0) - Processor(1.0, 2.0)

    assert used == Processor(loop=2.0, threads=5.0)
