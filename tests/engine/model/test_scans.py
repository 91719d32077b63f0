from engine.model.batch import Span
from engine.model.scans import make_state_step
from engine.step import StateUse


def test_a_step_s_spans_have_their_rows_and_slots_and_checkpoints_by_their_place_in_them() -> None:
    spans = [
        Span(0, 0, 5, (), StateUse(None, 3)),
        Span(5, 32, 1, (), StateUse(7, 7)),
        Span(6, 16, 40, (), StateUse(2, 1, ((48, 9), (32, 8), (56, 4)))),
    ]

    step = make_state_step(spans)

    assert step.spans.tolist() == [[0, 5, -1, 3], [5, 1, 7, 7], [6, 40, 2, 1]]
    assert step.checkpoints.tolist() == [[2, 16, 8], [2, 32, 9], [2, 40, 4]]
    assert step.num_rows == 46


def test_a_step_without_checkpoints_has_an_empty_table_of_them() -> None:
    assert make_state_step([Span(0, 0, 5, (), StateUse(None, 0))]).checkpoints.shape == (0, 3)
