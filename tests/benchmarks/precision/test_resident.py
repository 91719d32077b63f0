from pathlib import Path

import torch

from benchmarks.precision.resident import held_bytes

MIB = 1 << 20


def test_memory_that_is_written_counts_until_it_is_freed() -> None:
    before = held_bytes()
    held = torch.ones(64 * MIB, dtype=torch.uint8)
    with_it = held_bytes()
    del held
    after = held_bytes()

    assert 60 * MIB < with_it - before < 80 * MIB
    assert abs(after - before) < 10 * MIB


def test_a_system_that_does_not_tell_says_nothing(tmp_path: Path) -> None:
    assert held_bytes(tmp_path / "status") == 0
