"""The threads of a step: any number of them, beside others that want the same cores."""

import os
import subprocess
import sys
import time
from itertools import pairwise
from pathlib import Path

import pytest
import torch

from engine.model.kernels.matrix import pack
from engine.model.kernels.native import Kind, Linear, Op, Step
from tests.engine.model.kernels.machine import FLOAT_LEVELS, Machine, opened, random_matrix, the_library

ROOT = Path(__file__).parents[4]
PATIENCE_SECONDS = 300  # far beyond what a run takes: reached only when it hangs
MANY_STEPS = """
import os
import subprocess
import sys
import torch
from tests.models.architectures import ARCHITECTURES, make_model
from tests.models.support import every_kernels, make_native, run

config = ARCHITECTURES["llama"]()
config.hidden_size, config.intermediate_size = 128, 512
model = make_model(config)
prompt = [3 + at % 90 for at in range(60)]
expected = []
while_this_lives = f"import os\\nwhile os.getppid() == {os.getpid()}: pass"
busy = [subprocess.Popen([sys.executable, "-c", while_this_lives]) for _ in range(2)]
try:
    for num_threads in (1, 2, 3, 4):
        forward = make_native(model, every_kernels()[-1], num_threads=num_threads)
        expected += run(forward, (0, prompt, range(4)))
        for at in range(60):
            assert torch.equal(run(forward, (at, [prompt[at]], range(10, 14)))[0][0], expected[0][at])
        forward.close()
finally:
    for process in busy:
        process.kill()
        process.wait()
assert all(torch.equal(logits, expected[0]) for logits in expected)
print("done")
"""


def test_steps_on_any_number_of_threads_go_on_beside_busy_processes_and_say_the_same() -> None:
    command = [sys.executable, "-c", MANY_STEPS]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False)

    assert done.stdout == "done\n", done.stderr


def threads_here() -> set[str]:
    return set(os.listdir("/proc/self/task"))


def test_a_closed_pool_leaves_no_thread() -> None:
    before = threads_here()

    for num_threads in (1, 2, 4, 64):
        with opened(num_threads):
            mine = threads_here() - before
            assert len(mine) == num_threads - 1
        give_up = time.monotonic() + PATIENCE_SECONDS  # the kernel lists a thread for a moment after it was joined
        while mine & threads_here():
            assert time.monotonic() < give_up, mine


def test_a_pool_that_is_closed_while_its_threads_begin_does_not_hang() -> None:
    for _ in range(200):
        with opened(3):
            pass


def test_more_threads_than_there_can_be_are_as_many_as_there_can_be() -> None:
    before = threads_here()

    with opened(1000):
        assert len(threads_here() - before) == 63


def test_threads_without_work_sleep() -> None:
    with opened(4) as pool:
        run_products(pool, times=3)
        before = time.process_time()
        time.sleep(0.5)

        assert time.process_time() - before < 0.25  # one thread that spins takes twice that


@pytest.mark.parametrize("num_threads", [1, 2, 3, 4, 7])
def test_a_product_is_the_same_on_any_number_of_threads(num_threads: int) -> None:
    with opened(1) as one, opened(num_threads) as many:
        assert torch.equal(run_products(many, times=20), run_products(one, times=1))


def run_products(pool: int, *, times: int) -> torch.Tensor:
    """A chain of linear layers that all threads work at, a few times; the last output."""
    machine = Machine(FLOAT_LEVELS[-1], max_rows=64)
    matrix = pack(the_library(), random_matrix(Kind.F32, 256, 256))
    inputs = torch.randn(40, 256, generator=torch.Generator().manual_seed(0)) / 16
    buffers = [machine.rows(inputs), *(machine.room(40, 256) for _ in range(4))]
    for source, target in pairwise(buffers):
        body = Linear(input=source.number, output=target.number, scale=0.1, weight=machine.weight(matrix))
        machine.emit(Op.LINEAR, body)
    built = machine.finish()
    for _ in range(times):
        the_library().run(pool, machine.level, built.program, Step(num_rows=40))
    return buffers[-1].values().clone()
