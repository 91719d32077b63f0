import pytest

from server.top.words import count_told, rate_told, seconds_told, share_told, span_told


@pytest.mark.parametrize(
    ("seconds", "told"),
    [(0.9, "0 s"), (59, "59 s"), (61, "1 min 01 s"), (3725, "1 h 02 min"), (90_000, "1 d 01 h")],
)
def test_long_times_have_two_units(seconds: float, told: str) -> None:
    assert span_told(seconds) == told


@pytest.mark.parametrize(("seconds", "told"), [(None, "-"), (0.0012, "1.2 ms"), (0.123, "123 ms"), (2.34, "2.3 s")])
def test_short_times_are_in_milliseconds(seconds: float | None, told: str) -> None:
    assert seconds_told(seconds) == told


def test_numbers_are_short() -> None:
    assert count_told(12345) == "12,345"
    assert [rate_told(rate) for rate in (0, 0.25, 9.96, 1234.5)] == ["0", "0.2", "10.0", "1,234"]
    assert [share_told(share) for share in (None, 0.625)] == ["-", "62%"]
