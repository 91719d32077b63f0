import torch
from torch import Tensor

from engine.model.rows import CALL_ROWS, PATTERNS, RowCounts, Trials, agreeing_counts, trial_of

PATTERN_ROWS = torch.arange(PATTERNS, dtype=torch.float32).unsqueeze(1)


def product_with_classes(classes: dict[int, float]) -> Trials:
    """A product whose rows depend on how many there are: by the largest key that the count reaches."""

    def product(rows: Tensor) -> Tensor:
        reached = max(count for count in classes if count <= len(rows))
        return rows + classes[reached]

    return Trials(trial_of(product, PATTERN_ROWS))


def test_counts_that_give_the_same_rows_agree() -> None:
    trials = product_with_classes({1: 0.1, 4: 0.2, 16: 0.3})

    assert trials.agreeing([4, 8, 12, 16, 32]) == RowCounts((4, 8, 12))
    assert trials.agreeing([16, 32]) == RowCounts((16, 32))


def test_a_count_whose_rows_depend_on_their_place_agrees_with_nothing() -> None:
    def product(rows: Tensor) -> Tensor:
        return rows + torch.arange(len(rows)).unsqueeze(1) // 8

    trials = Trials(trial_of(product, PATTERN_ROWS))

    assert trials.agreeing([16, 32]) is None
    assert trials.agreeing([4, 8, 16]) == RowCounts((4, 8))


def test_the_largest_set_that_agrees_is_found_wherever_it_begins() -> None:
    trials = product_with_classes({1: 0.1, 2: 0.2, 16: 0.3})

    assert trials.most_agreeing([1, 2, 4, 8, 16]) == (2, 4, 8)
    assert trials.most_agreeing([]) == ()


def test_a_split_holds_the_rows_with_the_largest_counts_first() -> None:
    counts = RowCounts((16, 32, 48, 256))

    assert counts.split(16) == (16,)
    assert counts.split(112) == (48, 48, 16)
    assert counts.split(300) == (256, 32, 16)
    assert counts.split(0) == ()


def test_a_split_holds_less_than_a_quantum_of_padding() -> None:
    assert RowCounts((4, 8)).split(9) == (8, 4)


def test_the_cheapest_quantum_is_taken_for_all_products_together() -> None:
    anything = product_with_classes({1: 0.0})
    from_sixteen = product_with_classes({1: 0.1, 2: 0.2, 16: 0.3})

    found = agreeing_counts([anything, from_sixteen], [1, 1], loads=(1, 256), max_rows=256)

    assert [rows.quantum for rows in found] == [16, 16]
    assert found[1].counts[-1] == 256


def test_small_loads_prefer_small_counts() -> None:
    trials = product_with_classes({1: 0.1, 2: 0.2, 16: 0.3})

    assert agreeing_counts([trials], [1], loads=(1,), max_rows=256)[0].counts == (1,)


def test_one_row_a_call_is_the_last_resort() -> None:
    def product(rows: Tensor) -> Tensor:
        return rows + (torch.arange(len(rows)).unsqueeze(1) if len(rows) > 1 else 0)

    found = agreeing_counts([Trials(trial_of(product, PATTERN_ROWS))], [1], loads=(256,), max_rows=256)

    assert found == [RowCounts((1,))]
    assert found[0].cost(3) == 3 * (1 + CALL_ROWS)


def test_nothing_is_found_where_not_even_one_row_agrees_with_itself() -> None:
    calls = iter(range(1_000_000))

    def product(rows: Tensor) -> Tensor:
        return rows + next(calls)

    assert agreeing_counts([Trials(trial_of(product, PATTERN_ROWS))], [1], loads=(1,), max_rows=4) == []
