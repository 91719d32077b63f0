import torch

from benchmarks.precision.rounding import to_bfloat16, to_int8, to_two_bfloat16

ROWS = torch.tensor([[127.0, 1.4, -2.6, 0.0], [0.0, 0.0, 0.0, 0.0], [1.0, 0.5, -1.0, 0.25]])


def test_a_row_of_integers_has_the_step_of_its_largest_value() -> None:
    rounded = to_int8(ROWS, group=None)

    assert rounded[0].tolist() == [127.0, 1.0, -3.0, 0.0]
    assert rounded[1].tolist() == [0.0] * 4
    assert (rounded[2] - ROWS[2]).abs().max() <= 0.5 / 127


def test_a_scale_for_fewer_values_has_finer_steps() -> None:
    rounded = to_int8(ROWS, group=2)

    assert rounded[0, :2].tolist() == [127.0, 1.0]
    assert abs(float(rounded[0, 2]) + 2.6) < 1e-6


def test_two_bfloat16_hold_twice_the_bits_of_one() -> None:
    rows = torch.randn(4, 100, generator=torch.Generator().manual_seed(0))

    one, two = ((rounded - rows).abs() / rows.abs() for rounded in (to_bfloat16(rows), to_two_bfloat16(rows)))

    assert 2**-10 < one.max() <= 2**-8
    assert two.max() <= 2**-16
