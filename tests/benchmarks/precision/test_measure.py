from typing import TYPE_CHECKING

import pytest

from benchmarks.precision.measure import compare, steps
from benchmarks.precision.subjects import Room, make_subject
from benchmarks.precision.ways import REFERENCE, Way
from tests.tiny import make_tiny_model_folder

if TYPE_CHECKING:
    from pathlib import Path

ROOM = Room(num_positions=40, max_rows=16, num_threads=1)
TEXT = tuple(range(3, 43))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder: Path = tmp_path_factory.mktemp("tiny")
    make_tiny_model_folder(folder)
    return str(folder)


def test_the_steps_ask_for_every_token_but_the_first() -> None:
    plans = list(steps(TEXT, ROOM))

    assert [plan.chunks[0].start for plan, _ in plans] == [0, 16, 32]
    assert [token for plan, _ in plans for token in plan.chunks[0].tokens] == list(TEXT[:-1])
    assert [target for _, targets in plans for target in targets] == list(TEXT[1:])
    assert all(plan.chunks[0].num_logit_rows == len(targets) for plan, targets in plans)


def test_fewer_bits_lose_more(folder: str) -> None:
    ways = (REFERENCE, Way("avx2", "float32", "float32"), Way("avx2", "bfloat16"), Way("avx2", "int4"))
    subjects = [make_subject(folder, way, ROOM, progress=lambda _: None) for way in ways]

    itself, exact, half, few = (result.loss for result in compare(subjects, [TEXT, TEXT[::-1]], ROOM))

    assert itself.num_tokens == 2 * 39
    assert itself.max_kl == 0
    assert exact.mean_kl < 1e-8 < half.mean_kl < few.mean_kl
    assert exact.perplexity == pytest.approx(itself.perplexity, rel=1e-4)


def test_what_a_position_takes_is_told_by_the_type_of_the_cache(folder: str) -> None:
    subjects = [
        make_subject(folder, Way("avx2", cache=cache), ROOM, progress=lambda _: None)
        for cache in ("float32", "bfloat16", "int8")
    ]
    for subject in subjects:
        subject.forward.close()

    values = 2 * 2 * 2 * 16  # layers, kv heads, K and V
    assert [subject.position_bytes for subject in subjects] == [values * 4, values * 2, values + 8 * 4]
