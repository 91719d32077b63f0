from benchmarks.cache.checkpoints import Cost, Pair, cost_text
from benchmarks.cache.subject import Answered


def a_pair(first: float, gap: float) -> Pair:
    return Pair(Answered(first, gap, cached_tokens=0), Answered(1.0, 0.010, cached_tokens=0))


def test_what_checkpoints_add_is_told_by_pairs() -> None:
    pairs = (a_pair(1.02, 0.011), a_pair(1.04, 0.011), a_pair(1.00, 0.011))

    text = cost_text(Cost(pairs, num_loads=1, length=1024, num_outputs=65, num_checkpoints=6.0, checkpoint_bytes=4096))

    assert "| a prompt of 1,024, first token | 1,020 (1,000 to 1,040) | 1,000 (1,000 to 1,000) | +2.0%" in text
    assert "(+1.0% to +3.0%) |" in text
    assert "| a step that decodes, of 64 | 11 (11 to 11) | 10 (10 to 10) | +10.0%" in text
    assert (
        "kept by 1 of 2. 3 pairs of runs in turns, from 1 loads of both; a prompt and its answer left 6.0 checkpoints"
        in text
    )
